"""A recipe: everything that decides a training's outcome besides parent, samples and seed."""

import json
import math
from dataclasses import asdict, dataclass

from cause.errors import InputError
from cause.keyed import digest

OPTIMIZERS = ("adam", "sgd", "rmsprop")
SCHEDULES = ("constant", "cosine", "one-cycle")
AUGMENTATIONS = ("none", "crop-flip")
PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True)
class Recipe:
    """How a torch network is trained on a segment. Constants and classes come from here, never from the data.

    `shape` is that of one input as the network sees it (channels first for images). Inputs are scaled to
    (x - mean) / std; for bytes of 0 to 255 say mean=0, std=255 or what you know of the sensor. With `precision="bf16"`
    weights are rounded at the end of each segment, as part of training, so that the stored half-size copy is the state.

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
    precision: str = "fp32"
    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        for name, choices in (
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("augmentation", AUGMENTATIONS),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in choices:
                raise InputError(f"unknown {name} {getattr(self, name)!r}: one of {', '.join(choices)}")
        for name in ("classes", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.shape or min(self.shape) < 1:
            raise InputError(f"an input needs a shape of positive numbers, not {self.shape}")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise InputError(f"the learning rate must be above 0, not {self.lr}")
        if not (self.std > 0 and math.isfinite(self.std) and math.isfinite(self.mean)):
            raise InputError(f"inputs are scaled by a mean and a std above 0, not {self.mean} and {self.std}")
        if self.augmentation == "crop-flip" and len(self.shape) != 3:
            raise InputError(f"crop-flip is for images of shape (channels, height, width), not {self.shape}")

    @property
    def digest(self) -> bytes:
        """Names the recipe in every sub-model's identity."""
        return digest("recipe", json.dumps(asdict(self), sort_keys=True))
