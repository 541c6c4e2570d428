"""A recipe: everything that decides a training's outcome besides parent, samples and seed."""

import json
import math
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from cause.common.hashing import digest
from cause.common.registry import check_choice
from cause.engine.presets import IF_NEEDED, PRECISIONS, System
from cause.errors import InputError

OPTIMIZERS = ("adam", "sgd", "rmsprop")
SCHEDULES = ("constant", "cosine", "one-cycle", "warm-cosine")
AUGMENTATIONS = ("none", "crop-flip")
PRUNINGS = ("none", "iterative", "one-shot")
IMPORTANCES = ("magnitude", "gradient")
COMPUTES = ("fp32", "tf32", "bf16")
PACES = ("epochs", "visits")
INPUTS = ("float32", "int64")
ADDED = {
    "class_weights": ((),),
    "loss": (None,),
    "input_dtype": (None, "float32"),
    "min_steps": (None, 0),
    "init_sha256": (None,),
    "freeze": ((),),
}
"""Parts that recipes did not always have, with the values under which a recipe's digest is what it was without them."""
UNDIGESTED = ("init",)
"""Parts that do not decide a training: where public weights are; their digest decides."""
MOST_EPOCHS_FOR_STEPS = 8
"""How many times its epochs a recipe may train on a small segment, to reach its least number of steps."""
TARGET = 0.7
"""The paper's share of parameters to prune."""


@dataclass(frozen=True)
class Recipe:
    """How a torch network is trained on a segment. Constants and classes come from here, never from the data.

    `shape` is that of one input as the network sees it (channels first for images). Inputs are scaled to
    (x - mean) / std; for bytes of 0 to 255 say mean=0, std=255 or what you know of the sensor. Both are one number, or
    one for each channel (each feature of a table). With `input_dtype="int64"` inputs stay whole numbers, as an
    embedding wants them, and are not scaled; left out, they do if the network has an embedding and does not take
    floats. With `precision="bf16"` weights are rounded at the end of each segment, as part of training, so that the
    stored half-size copy is the state.

    Pruning happens in the first segment of a shard and never later: "iterative" removes filters in `steps` steps spread
    over its epochs, up to the share `target` of the parameters; "one-shot" masks the smallest weights once, in the
    middle of its epochs, and later segments keep the mask. What is left out of `precision`, `pruning` and `target` is
    as the device's system says: see `composed`.

    `compute` is how a GPU multiplies: fp32, tf32 (fp32 with fewer bits in products) or bf16 (autocast: fp32 weights);
    a CPU computes in fp32 whatever it says. With `pace="visits"` rehearsed samples come out of the same purse: a
    segment visits as many samples as `epochs` epochs over its own ones would, so it has fewer epochs, the more it
    rehearses. "warm-cosine" rises over a fifth of the steps, then falls; unlike "one-cycle" it leaves momentum alone.

    The loss is cross entropy, each class counted by its `class_weights`, or one of your own: `loss` names a function
    (`package.module:function`) of the network's outputs and the labels that returns the mean loss of a batch.

    A segment of few samples has as many more epochs as `min_steps` steps of the optimizer need, but at most
    MOST_EPOCHS_FOR_STEPS times `epochs`. Left out, it is as the system says.

    With `init` the first segment of a shard starts from public weights instead of noise: a .safetensors file, or the
    name of installed weights ("efficientnet-lite0"). `init_sha256` is the digest that the file must have; a learner
    fills it in. Tensors that the file does not have in the network's shape, as those of the layer that answers, start
    from noise. Layers whose names are in `freeze` (or begin with one of them and a dot) are not trained.

    >>> one, other = Recipe("mlp", 10, (64,)), Recipe("mlp", 10, (64,), lr=0.1)
    >>> one.digest == other.digest
    False
    """

    model: str
    classes: int
    shape: tuple[int, ...]
    options: tuple[tuple[str, int | float], ...] = ()
    epochs: int = 10
    batch_size: int = 64
    optimizer: str = "adam"
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "constant"
    augmentation: str = "none"
    precision: str | None = None
    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 1.0
    pruning: str | None = None
    target: float | None = None
    steps: int = 5
    importance: str = "magnitude"
    round_to: int = 8
    nesterov: bool = False
    label_smoothing: float = 0.0
    compute: str = "fp32"
    pace: str = "epochs"
    class_weights: tuple[float, ...] = ()
    loss: str | None = None
    input_dtype: str | None = None
    min_steps: int | None = None
    init: str | None = None
    init_sha256: str | None = None
    freeze: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("shape", "mean", "std", "class_weights", "freeze"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("augmentation", self.augmentation, AUGMENTATIONS)
        if self.precision is not None:
            check_choice("precision", self.precision, PRECISIONS)
        if self.pruning is not None:
            check_choice("pruning", self.pruning, PRUNINGS)
        check_choice("importance", self.importance, IMPORTANCES)
        check_choice("compute", self.compute, COMPUTES)
        check_choice("pace", self.pace, PACES)
        for name in ("classes", "epochs", "batch_size", "steps", "round_to"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.min_steps is not None and self.min_steps < 0:
            raise InputError(f"min_steps must not be negative, not {self.min_steps}")
        if not self.shape or min(self.shape) < 1:
            raise InputError(f"an input needs a shape of positive numbers, not {self.shape}")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise InputError(f"the learning rate must be above 0, not {self.lr}")
        self._check_inputs()
        self._check_loss()
        self._check_start()
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"labels are smoothed by a share from 0 to below 1, not {self.label_smoothing}")
        if self.nesterov and (self.optimizer != "sgd" or self.momentum <= 0):
            raise InputError(f"nesterov is for sgd with momentum, not {self.optimizer} with {self.momentum}")
        if self.augmentation == "crop-flip" and len(self.shape) != 3:
            raise InputError(f"crop-flip is for images of shape (channels, height, width), not {self.shape}")
        if self.target is not None and not 0 < self.target < 1:
            raise InputError(f"the share of parameters to prune must be above 0 and below 1, not {self.target}")

    def _check_inputs(self) -> None:
        for name in ("mean", "std"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != self.shape[0]:
                raise InputError(f"{name} has {len(value)} numbers, but an input of shape {self.shape} {self.shape[0]}")
        means, stds = (part if isinstance(part, tuple) else (part,) for part in (self.mean, self.std))
        if not (all(std > 0 and math.isfinite(std) for std in stds) and all(map(math.isfinite, means))):
            raise InputError(f"inputs are scaled by a mean and a std above 0, not {self.mean} and {self.std}")
        if self.input_dtype is not None:
            check_choice("input_dtype", self.input_dtype, INPUTS)
        if self.input_dtype == "int64" and (self.mean != 0 or self.std != 1 or self.augmentation != "none"):
            raise InputError("inputs of int64 stay as they are: they have no mean, no std and no augmentation")

    def _check_loss(self) -> None:
        if self.class_weights and len(self.class_weights) != self.classes:
            raise InputError(f"{len(self.class_weights)} class weights, but there are {self.classes} classes")
        if not all(weight > 0 and math.isfinite(weight) for weight in self.class_weights):
            raise InputError(f"class weights must be above 0, not {list(self.class_weights)}")
        if self.loss is not None:
            if ":" not in self.loss:
                raise InputError(f"a loss is named as package.module:function, not {self.loss!r}")
            if self.class_weights or self.label_smoothing:
                raise InputError(f"{self.loss!r} is a loss of your own: class weights and smoothing are its affair")

    def _check_start(self) -> None:
        if self.init_sha256 is not None:
            if self.init is None:
                raise InputError(
                    "init_sha256 is the digest of the public weights that init names, but there is no init"
                )
            if not re.fullmatch("[0-9a-f]{64}", self.init_sha256):
                raise InputError(f"init_sha256 is 64 hexadecimal digits, not {self.init_sha256!r}")
        if not isinstance(self.freeze, tuple) or not all(isinstance(name, str) and name for name in self.freeze):
            raise InputError(f"freeze names layers, as ('_conv_stem', '_blocks.0'), not {self.freeze!r}")

    def composed(self, system: System) -> "Recipe":
        """Return the recipe with a system's pruning, precision and steps; refuse a recipe that sets others itself.

        >>> from cause.engine.presets import PRESETS
        >>> Recipe("mlp", 10, (64,)).composed(PRESETS["omp-95"]).target
        0.95
        >>> Recipe("mlp", 10, (64,), precision="bf16").composed(PRESETS["sisa"])
        Traceback (most recent call last):
        cause.errors.InputError: the recipe's precision is 'bf16', but the system's is 'fp32': say it in one place
        """
        pruning = "none" if system.pruning == IF_NEEDED else system.pruning  # a device has decided before
        kind, _, percent = pruning.rpartition("-")
        of_system: dict[str, Any] = {"pruning": kind or "none", "precision": system.precision}
        if kind:
            of_system["target"] = int(percent) / 100
        for name, value in of_system.items():
            ours = getattr(self, name)
            if ours is not None and ours != value:
                raise InputError(f"the recipe's {name} is {ours!r}, but the system's is {value!r}: say it in one place")
        return replace(self, **of_system, min_steps=system.min_steps if self.min_steps is None else self.min_steps)

    @property
    def with_defaults(self) -> "Recipe":
        """Return the recipe with defaults for what a system would set: no pruning, full precision, no least steps."""
        return replace(
            self,
            precision=self.precision or "fp32",
            pruning=self.pruning or "none",
            target=self.target or TARGET,
            min_steps=self.min_steps or 0,
        )

    @property
    def digest(self) -> bytes:
        """Digest of the recipe, which is part of every sub-model's identity."""
        parts = asdict(self.with_defaults)
        parts = {
            name: value for name, value in parts.items() if value not in ADDED.get(name, ()) and name not in UNDIGESTED
        }
        return digest("recipe", json.dumps(parts, sort_keys=True))
