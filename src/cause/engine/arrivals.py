"""The check of every upload, whether it comes through `learn`, `stage`, a command or HTTP.

A whole upload is checked before anything is recorded: against the device's shape and type of inputs, and by its
learner. So no training gets inputs that the learner refuses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.common.names import check_user
from cause.engine.arrays import ArrayUpload, TraceData, checked
from cause.engine.learner import Learner
from cause.engine.ledger import Ledger
from cause.engine.presets import REPLAYED
from cause.engine.samples import Upload, WithArrays
from cause.errors import ArrivalError, InputError

DTYPES = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
          "float16", "float32", "float64")  # fmt: skip
"""The values that `input_dtype` may have."""
Kind = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and type of one input."""


@dataclass(frozen=True)
class InputSpec:
    """Shape and type that a device's inputs must have, as far as they are fixed. Sub-models do not depend on it.

    Attributes
    ----------
    shape
        The shape of one input; None if only the learner restricts it.
    dtype
        Inputs of the same kind of number are accepted: float64 for float32, whole numbers for either, but no float32
        for int64. None if only the learner restricts it.
    convert
        Whether inputs are converted to `dtype`; otherwise they are kept as uploaded.
    source
        What fixed the shape and type, for messages.

    Raises
    ------
    InputError
        If shape or dtype are not valid.
    """

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    convert: bool = False
    source: str = "this device"

    def __post_init__(self) -> None:
        if self.shape is not None and (
            not self.shape or not all(isinstance(s, int) and not isinstance(s, bool) and s >= 1 for s in self.shape)
        ):
            raise InputError(
                f"input_shape is a list of positive whole numbers, as [64] or [3, 32, 32], not {self.shape}"
            )
        if self.dtype is not None and self.dtype not in DTYPES:
            raise InputError(f"input_dtype is one of {', '.join(DTYPES)}, not {self.dtype!r}")

    def fitted(self, user: str, x: NDArray[Any]) -> NDArray[Any]:
        """Return these inputs as the device keeps them.

        Raises
        ------
        ArrivalError
            If shape or type differ, or a value does not survive the conversion; it names row and value.

        Examples
        --------
        >>> InputSpec((2,), "float32", convert=True).fitted("ann", np.array([[1, 2]])).dtype
        dtype('float32')
        >>> InputSpec((2,), "float32", convert=True).fitted("ann", np.array([[1, 2], [3, 1e300]]))
        Traceback (most recent call last):
        cause.errors.ArrivalError: inputs of user 'ann': row 1 holds 1e+300, which float32 cannot hold
        """
        if self.shape is not None and x.shape[1:] != self.shape:
            raise ArrivalError(
                f"inputs of user {user!r} have shape {x.shape[1:]}, but {self.source} takes {self.shape}: reshape them"
            )
        if self.dtype is None or x.dtype == self.dtype:
            return x
        if not np.can_cast(x.dtype, self.dtype, "same_kind"):
            raise ArrivalError(
                f"inputs of user {user!r} are {x.dtype}, but {self.source} takes {self.dtype}: convert them"
            )
        return self._converted(user, x) if self.convert else x

    def _converted(self, user: str, x: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(all="ignore"):  # values that do not fit are refused below
            converted = x.astype(self.dtype)
        fits = np.isfinite(converted) if converted.dtype.kind == "f" else converted == x
        if not fits.all():
            row = int(np.argmin(fits.reshape(len(x), -1).all(axis=1)))
            value = x[row][~fits[row]].flat[0]
            raise ArrivalError(f"inputs of user {user!r}: row {row} holds {value}, which {self.dtype} cannot hold")
        return converted


def spec_from_settings(shape: Sequence[int] | None, dtype: str | None) -> InputSpec:
    """Return the spec of a device's settings `input_shape` and `input_dtype`; inputs are converted to the dtype."""
    return InputSpec(None if shape is None else tuple(shape), dtype, convert=True)


def spec_of(given: InputSpec, learner: Learner, ledger: Ledger, staged: Callable[[], Kind | None]) -> InputSpec:
    """Return the spec of a device: its settings; without them what its learner takes, or else what the device holds.

    Parameters
    ----------
    given
        The device's settings.
    learner
        If it has an `input_shape`, its own check decides.
    ledger
        The retained samples.
    staged
        Returns shape and type of a staged sample.
    """
    if given.shape is not None or learner.input_shape is not None:
        return given
    held = inferred(ledger, staged)
    return given if held is None else replace(held, dtype=given.dtype or held.dtype, convert=given.convert)


def check_round(uploads: Any, spec: InputSpec, learner: Learner) -> Any:
    """Return the uploads of a round as the device keeps them, after checking all of them.

    Parameters
    ----------
    uploads
        Tuples of inputs, labels and perhaps more by user, or a list of `Upload`.
    spec
        What the device accepts. If it is open, the first upload decides for the others.
    learner
        Checks each upload.

    Raises
    ------
    ArrivalError
        If the device cannot take an upload; or another error of the learner's check.
    """
    if not isinstance(uploads, Mapping):
        uploads = list(uploads)
        for upload in uploads:
            spec = check_upload(upload, spec, learner)
        return [_recorded(upload, learner) for upload in uploads]
    checked_uploads = {}
    for user, (x, y, *rest) in uploads.items():
        check_user(user)
        inputs, labels = check_arrays(user, x, y, spec, learner)
        spec = _fixed(spec, learner, inputs)
        checked_uploads[user] = (inputs, labels, *rest)
    return checked_uploads


def check_upload(upload: Upload, spec: InputSpec, learner: Learner) -> InputSpec:
    """Check one upload.

    Returns
    -------
    InputSpec
        What the next uploads must be.

    Raises
    ------
    ArrivalError
        If the device cannot take the upload; or another error of the learner's check.
    """
    check_user(upload.user)
    if isinstance(upload, WithArrays) and len(upload.positions):
        x = upload.arrays(upload.positions[:1])[0]
        if spec.convert and spec.dtype not in (None, x.dtype.name):
            raise ArrivalError(f"inputs of user {upload.user!r} are {x.dtype}, but {spec.source} takes {spec.dtype}")
        spec.fitted(upload.user, x)
        spec = _fixed(spec, learner, x)
    learner.check(upload)
    return spec


def _recorded(upload: Upload, learner: Learner) -> Upload:
    """Return an upload with its inputs in the form in which the device keeps them."""
    if learner.law == REPLAYED or not isinstance(upload, ArrayUpload | TraceData):
        return upload
    return upload.with_inputs(learner.recorded)


def _fixed(spec: InputSpec, learner: Learner, x: NDArray[Any]) -> InputSpec:
    """Return the spec that follows from the first inputs, if neither settings nor learner name a shape."""
    if spec.shape is not None or learner.input_shape is not None:
        return spec
    held = _held(x.shape[1:], x.dtype)
    return replace(held, dtype=spec.dtype or held.dtype, convert=spec.convert)


def check_arrays(
    user: str, x: ArrayLike, y: ArrayLike, spec: InputSpec, learner: Learner
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return inputs and labels as the device keeps them, after checking them.

    Parameters
    ----------
    user
        Whose they are, for messages.
    x, y
        Inputs and labels; messages name their rows.
    spec
        What the device accepts.
    learner
        Checks them.

    Raises
    ------
    InputError
        If the learner cannot learn from them, or they are not of the device's shape and type.
    """
    inputs, labels = checked(user, x, y, copy=False)
    inputs = spec.fitted(user, inputs)
    learner.check(ArrayUpload.restored(user, 0, range(len(labels)), inputs, labels, [], []))
    return learner.recorded(inputs), labels


def inferred(ledger: Ledger, staged: Callable[[], Kind | None]) -> InputSpec | None:
    """Return shape and type of the oldest retained sample, or else of a staged one; None if there is neither.

    For a learner without `input_shape`. The result follows from the samples that are retained now and is stored
    nowhere, so forgotten samples do not influence it.
    """
    firsts = [next(iter(ledger.lineage(shard))) for shard in ledger.shards()]
    if not firsts:
        waiting = staged()
        return None if waiting is None else _held(*waiting)
    upload, positions = min(firsts, key=lambda segment: (segment.key.round, segment.key)).pieces[0]
    if not isinstance(upload, WithArrays):
        return None
    x = upload.arrays(positions[:1])[0]
    return _held(x.shape[1:], x.dtype)


def _held(shape: tuple[int, ...], dtype: np.dtype[Any]) -> InputSpec:
    name = dtype.name if dtype.name in DTYPES else None
    return InputSpec(tuple(shape) or None, name, source="what this device holds")
