"""AdditiveLearner: features as integers, sums over the samples, and a head that is solved from the sums."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.common.hashing import digest
from cause.common.heap import return_freed_memory
from cause.common.registry import check_choice
from cause.engine.arguments import check_whole
from cause.engine.checks import check_classes
from cause.engine.keywords import checks_arguments
from cause.engine.learner import Predictor, check_labels
from cause.engine.samples import Piece, Upload, WithArrays, arrays_of
from cause.engine.summing import SummingLearner
from cause.errors import ArrivalError, InputError
from cause.learners.additive import expand as expansion
from cause.learners.additive import rows
from cause.learners.additive.backbones import backbone_of
from cause.learners.additive.backbones.absent import absent_backbone
from cause.learners.additive.gcv import GCV
from cause.learners.additive.heads import Head, Setting, head_of
from cause.learners.additive.scale import scale_of
from cause.learners.additive.solve import SOLVERS
from cause.learners.additive.sums import Sums

FORMAT = 1
"""Part of the recipe's digest: another way to compute the same settings is another number."""
EXACT = 1 << 53
"""float64 holds every whole number below it."""
OVERFLOW = 1 << 63
"""int64 holds every whole number below it."""
BLOCK = 1_024
"""Samples that are added together."""
MOST_FEATURES = 65_536
GCV_FEATURES = 600
"""Without a backbone no constant fits: features may be of any size. More features would make a solution slow."""
KEEP = ("features", "samples")
OUT_OF_SCALE = ("clip", "refuse")


class AdditiveLearner(SummingLearner):
    """A classifier whose state is a sum over the samples: to forget is to subtract.

    A sample's features (of a frozen backbone, or the inputs themselves) become integers on a constant scale. The head
    names a contribution of integers for each sample; the state is their sum. Nothing is fitted on data but that sum:
    scale, classes and random layers are constants of the recipe.

    Parameters
    ----------
    backbone
        What makes features of inputs: "contrast-filters", "random-filters", "efficientnet-lite0", the path of an .onnx
        file, a torch module, or None if the inputs are the features.
    classes
        How many classes there are.
    features, shape
        Without a backbone: the number of values in an input, or its shape.
    size
        The side to which EfficientNet-Lite0 scales pictures; the number of random filters.
    scale
        (low, high) of the features, each one number or one for each feature; the backbone's unless it is given.
    squash
        Whether the scale takes numbers of any size, instead of clipping them.
    bits
        Of a feature: 8, 12 or 16.
    out_of_scale
        "clip" clips features outside of a linear scale and counts them; "refuse" refuses the upload.
    expand
        The number of random units between features and head; 0 for none.
    head
        "ridge", "class-means", "gaussian-nb", "multinomial-nb", or a class on
        `cause.learners.additive.heads.Head`, which has to be passed whenever a home is opened.
    regularization
        λ of the ridge head, as a share of the mean squared length of a sample's features, or "gcv" to choose it from
        the state by generalised cross-validation. By default a constant of the backbone, but "gcv" with `expand`, and
        for up to 600 features without a backbone.
    solve
        "lapack", or "portable" for the same bits on every machine.
    keep
        "features" records the features of a sample alone; "samples" its input too.
    seed
        Of random filters and units: a public constant.
    backbone_sha256
        The digest that the file of an .onnx backbone must have; a home writes it down.
    backbone_facts
        What a home writes down of such a file, so that it forgets and verifies without it; it decides nothing here.

    Raises
    ------
    InputError
        If the arguments are not those of a learner.

    Examples
    --------
    >>> from cause import Cause
    >>> device = Cause(learner=AdditiveLearner(features=2, scale=(0, 10), classes=2))
    >>> learned = device.learn({"ann": ([[1, 9], [2, 8]], [0, 0]), "bob": ([[9, 1], [8, 2]], [1, 1])})
    >>> device.predict([[2, 9], [9, 3]])
    array([0, 1])
    >>> device.forget("ann")[0].rsn, device.verify().holds
    (0, True)
    """

    @checks_arguments
    def __init__(
        self,
        backbone: Any = None,
        *,
        classes: int,
        features: int | None = None,
        shape: Sequence[int] | None = None,
        size: int | None = None,
        scale: Any = None,
        squash: bool = False,
        bits: int = 8,
        out_of_scale: str = "clip",
        expand: int = 0,
        head: str | type[Head] = "ridge",
        regularization: float | str | None = None,
        solve: str = "lapack",
        keep: str = "features",
        seed: int = 0,
        backbone_sha256: str | None = None,
        backbone_facts: Mapping[str, Any] | None = None,
    ) -> None:
        check_whole(classes=classes, features=features, size=size, expand=expand, seed=seed)
        check_classes(classes)
        check_choice("keep", keep, KEEP)
        check_choice("out_of_scale", out_of_scale, OUT_OF_SCALE)
        SOLVERS[solve]
        if not isinstance(squash, bool):
            raise InputError(f"squash is True or False, not {squash!r}")
        if features is not None and shape is not None:
            raise InputError("features is the shape of a table's row: give either features or shape, not both")
        if not 0 <= expand <= MOST_FEATURES:
            raise InputError(f"expand is the number of random units, from 0 to {MOST_FEATURES:,}, not {expand}")
        sides = (features,) if features is not None else None if shape is None else _sides(shape)
        self.backbone = backbone_of(backbone, sides, size, seed, backbone_sha256)
        self._lambda_given = regularization is not None
        count = self.backbone.features
        unscaled = bool(expand) or (backbone is None and count <= GCV_FEATURES)
        rule = GCV if unscaled and head == "ridge" and solve == "lapack" else self.backbone.regularization
        regularization = rule if regularization is None else _regularization(regularization, head, solve)
        if count > MOST_FEATURES:
            raise InputError(f"at most {MOST_FEATURES:,} features, not {count:,}")
        setting = self.backbone.scale if scale is None else scale
        if setting is None:
            raise InputError(
                "the learner needs the scale of the features, a constant: scale=(low, high), never fitted on data"
            )
        self.scale = scale_of(setting, bits, squash=squash, refuse=out_of_scale == "refuse")
        self.scale.check(count)
        self._classes, self._keep = classes, keep
        self._arguments: dict[str, Any] = {
            "backbone": backbone, "classes": classes, "features": features,
            "shape": None if shape is None else list(shape), "size": size,
            "scale": None if scale is None else [_plain(self.scale.low), _plain(self.scale.high)],
            "squash": squash, "bits": bits, "out_of_scale": out_of_scale, "expand": expand, "head": head,
            "regularization": regularization, "solve": solve, "keep": keep, "seed": seed,
        }  # fmt: skip
        self._typical = self._typical_codes() if expand else None
        self.expansion = (
            expansion.Expansion(count, self.scale.largest, expand, seed, *(self._typical or ())) if expand else None
        )
        largest = expansion.LARGEST if expand else self.scale.largest
        self.head: Head = head_of(head)(Setting(expand or count, classes, largest, regularization, solve))
        self._shapes = self.head.shapes()
        if BLOCK * self.head.largest_contribution >= EXACT:
            raise InputError(f"features of {bits} bits are too large to be summed exactly, {BLOCK} at a time")
        self._decisive = self._recipe()
        self._recipe_digest = self._digest(self._decisive)

    def _typical_codes(self) -> list[int] | None:
        """Return a typical feature of the backbone and its deviation as whole numbers; None if it names none."""
        if self.backbone.typical is None or isinstance(self.scale.low, tuple) or isinstance(self.scale.high, tuple):
            return None
        mean, deviation = self.backbone.typical
        low, centre, high = self.scale.codes(np.array([[mean - deviation, mean, mean + deviation]]))[0][0].tolist()
        return [centre, max(1, high - centre, centre - low)]

    def _recipe(self) -> dict[str, Any]:
        """Return everything that decides a state; how it is solved is no part of that, λ neither."""
        named = self._arguments["head"]
        head = named if isinstance(named, str) else f"{type(self.head).__module__}:{type(self.head).__qualname__}"
        return {
            "format": FORMAT, "backbone": self.backbone.identity,
            "low": _plain(self.scale.low), "high": _plain(self.scale.high), "bits": self.scale.bits,
            "squash": self.scale.squash, "refuse": self.scale.refuse, "head": head, "units": self._typical,
            **{name: self._arguments[name] for name in ("classes", "expand", "keep", "seed")},
        }  # fmt: skip

    def _digest(self, recipe: Mapping[str, Any]) -> bytes:
        """Return the digest of a recipe, in the arrangement of the first version."""
        arranged: dict[str, Any] = {name: recipe[name] for name in ("format", "backbone", "refuse")}
        arranged["scale"] = [recipe[name] for name in ("low", "high", "bits", "squash")]
        arranged["parts"] = {name: recipe[name] for name in ("classes", "expand", "head", "keep", "seed")}
        if recipe["units"] is not None:
            arranged["units"] = recipe["units"]
        return digest("additive", json.dumps(arranged, sort_keys=True))

    # What a learner is

    @property
    def recipe_digest(self) -> bytes:
        """Digest of everything that decides a state besides the samples."""
        return self._recipe_digest

    @property
    def environment(self) -> str:
        """The same everywhere: sums of integers have the same bits on every machine."""
        return "sums of integers"

    @property
    def sub_model_bytes(self) -> int:
        """Size of the state."""
        return Sums.bytes_of(self._shapes)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self._classes

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.backbone.input_shape

    @property
    def most_samples(self) -> int:
        """The number of samples up to which no sum can reach 2^63."""
        return (OVERFLOW - 1) // self.head.largest_contribution

    @property
    def recorded_bytes(self) -> int:
        """The size of a recorded sample, without its input."""
        return self.backbone.features * self.scale.dtype.itemsize + rows.COUNT_BYTES

    def described(self) -> dict[str, Any] | None:
        """Return the learner as plain data; None if its backbone or its head is an object."""
        named = self.backbone.described()
        if named is None or not isinstance(self._arguments["head"], str):
            return None
        given = {name: value for name, value in (self._arguments | named).items() if value is not None}
        return {"kind": "additive", **given}

    def as_written(self, description: Mapping[str, Any]) -> "AdditiveLearner":
        """Return the learner with λ as the home has it, if none was given: a home keeps its rule."""
        written, given = description.get("regularization"), self._arguments
        if self._lambda_given or written is None or written == given["regularization"]:
            return self
        if written == GCV and (given["head"] != "ridge" or given["solve"] != "lapack"):
            return self  # another solver has a constant, another head another recipe
        named = {name: value for name, value in given.items() if value is not None}
        return AdditiveLearner(**{**named, "regularization": written})

    @classmethod
    def without_backbone(cls, description: Mapping[str, Any], reason: str) -> "AdditiveLearner | None":
        """Return the learner of a home whose backbone cannot be loaded; None if the home does not say enough of it.

        It adds up and subtracts recorded samples as the learner itself does. New inputs raise an `InputError`.

        Parameters
        ----------
        description
            The table `[learner]` of the home.
        reason
            Why the backbone cannot be loaded.
        """
        backbone = absent_backbone(reason, description)
        left_out = ("kind", "backbone", "backbone_sha256", "backbone_facts")
        given = {name: value for name, value in description.items() if name not in left_out}
        return None if backbone is None else cls(backbone, **given)

    # Samples

    def check(self, upload: Upload) -> None:
        """Refuse labels that are no classes, and inputs of another shape."""
        check_labels(upload, self._classes)
        if isinstance(upload, WithArrays):
            shape = upload.arrays(upload.positions[:1])[0].shape[1:]
            if not self._takes(shape):
                takes = f"but this learner takes {self.input_shape}"
                raise ArrivalError(f"inputs of user {upload.user!r} have shape {shape}, {takes}")

    def _takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether inputs of this shape are taken: as they are, or as pictures with their channels last."""
        return self.backbone.takes(shape) or self.backbone.takes(self._channels_first(shape))

    def _channels_first(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a picture with its channels first: pictures are most often (height, width, channels)."""
        channels = self.input_shape[0]
        if len(self.input_shape) != 3 or self.backbone.takes(shape):
            return shape
        if len(shape) == 2 and channels == 1:
            return (1, *shape)
        return (channels, *shape[:2]) if len(shape) == 3 and shape[2] == channels else shape

    def _shaped(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return inputs in the shape of the backbone's, if they are rows of as many numbers or have channels last."""
        if x.shape[1:] == (prod(self.input_shape),):
            return x.reshape(len(x), *self.input_shape)
        first = self._channels_first(x.shape[1:])
        if first == x.shape[1:]:
            return x
        return x[:, None] if x.ndim == 3 else np.moveaxis(x, -1, 1)

    def recorded(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the features of checked inputs as the device keeps them: one row of bytes a sample.

        Raises
        ------
        ArrivalError
            If a feature is not finite, or outside of a scale that refuses such features.
        """
        shaped = self._shaped(x)
        if self._keep == "samples" and shaped.shape[1:] != self.input_shape:
            raise ArrivalError(f"inputs are kept as {self.input_shape}, so {shaped.shape[1:]} must be scaled before")
        codes, clipped = self.scale.codes(self.backbone.compute(shaped))
        return rows.packed(codes, clipped, shaped if self._keep == "samples" else None)

    def inputs_of(self, recorded: NDArray[Any]) -> NDArray[Any] | None:
        """Return the inputs that recorded samples hold; None unless `keep="samples"`."""
        return rows.inputs_of(recorded, self.backbone.features, self.scale.dtype, self.input_shape)

    def blocks(self, piece: Piece) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64], int]]:
        """Yield blocks of (features, labels, clipped count) for recorded samples."""
        return self.blocks_of(*arrays_of(*piece))

    def blocks_of(
        self, x: NDArray[Any], y: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64], int]]:
        """Yield blocks of (features, labels, clipped count) for recorded rows."""
        features, dtype = self.backbone.features, self.scale.dtype
        for start in range(0, len(y), BLOCK):
            part = x[start : start + BLOCK]
            clipped = int(rows.clipped_of(part, features, dtype).sum(dtype=np.int64))
            yield self._entries(rows.codes_of(part, features, dtype)), y[start : start + BLOCK], clipped

    def _entries(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the head adds up: the features or units, and the constant 1."""
        width = self.head.setting.features
        entries = np.empty((len(codes), width + 1))
        entries[:, :width] = codes if self.expansion is None else self.expansion.units_of(codes.astype(np.float64))
        entries[:, width] = 1.0
        return entries

    # Sums

    def empty(self) -> Sums:
        """Return the sums over no samples."""
        return Sums(self._shapes, self._decisive)

    def add(self, state: Sums, piece: Piece) -> None:
        """Add recorded samples to the sums."""
        for entries, y, clipped in self.blocks(piece):
            self.head.add(state, entries, y)
            state.samples += len(y)
            state.clipped += clipped

    def subtract(self, state: Sums, piece: Piece) -> None:
        """Subtract recorded samples from the sums."""
        for entries, y, clipped in self.blocks(piece):
            self.head.subtract(state, entries, y)
            state.samples -= len(y)
            state.clipped -= clipped

    def copied(self, state: Sums) -> Sums:
        """Return a copy of the sums."""
        return state.copy()

    def encode(self, state: Sums) -> bytes:
        """Return the sums as bytes."""
        return state.encoded()

    def decode(self, blob: bytes) -> Sums:
        """Return the sums of bytes, which do not name their recipe: they are taken to be of this one."""
        return Sums.decoded(blob, self._shapes, self._decisive)

    def exported(self, state: Sums) -> Mapping[str, Any]:
        """Return the arrays of the solution, and the number of samples behind it; no sums."""
        return {**self.head.solve(state).arrays, "samples": state.samples}

    # Predictions

    def predictor(self, state: Sums) -> Predictor:
        """Solve the sums, and return a function that predicts with the solution."""
        solution = self.head.solve(state)
        return_freed_memory()  # a solution takes several times the memory of the state for a moment

        def predict(x: ArrayLike) -> NDArray[np.floating]:
            inputs = np.asarray(x)
            if not self._takes(inputs.shape[1:]):
                raise InputError(f"inputs have shape {inputs.shape[1:]}, but this learner takes {self.input_shape}")
            features = self.backbone.compute(self._shaped(inputs))
            return solution.probabilities(self._entries(self.scale.codes(features)[0]))

        return predict


def _sides(shape: Any) -> tuple[int, ...]:
    """Return the shape of an input; raise an `InputError` if it is none."""
    sides = tuple(shape) if isinstance(shape, Iterable) else ()
    if not sides or not all(isinstance(side, int) and side >= 1 for side in sides):
        raise InputError(f"the shape of an input is positive whole numbers, as (1, 28, 28), not {shape!r}")
    return sides


def _regularization(given: float | str, head: str | type[Head], solve: str) -> float | str:
    """Return the given setting of λ: a number, or the rule that chooses it from the state.

    Raises
    ------
    InputError
        If it is neither, or the rule does not fit the head or the solver.
    """
    if given == GCV:
        if head != "ridge" or solve != "lapack":
            raise InputError(f"regularization={GCV!r} is for the head ridge solved by lapack: give a number")
        return GCV
    if isinstance(given, bool | str) or not 0 < given < 1e6:
        raise InputError(f"regularization is a number above 0 and below 1,000,000, as 0.1, or {GCV!r}, not {given!r}")
    return float(given)


def _plain(numbers: float | tuple[float, ...]) -> float | list[float]:
    return list(numbers) if isinstance(numbers, tuple) else numbers
