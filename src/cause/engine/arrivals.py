"""What every upload must pass, however it arrives: `learn`, `stage`, the commands, HTTP.

An upload is looked at as a whole before anything is recorded: against the device's shape and type of inputs, and by its
learner. Nothing of it reaches a shard's training that the learner is known not to bear.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.common.names import check_user
from cause.engine.arrays import ArrayUpload, checked
from cause.engine.learner import Learner
from cause.engine.ledger import Ledger
from cause.engine.samples import Upload, WithArrays
from cause.errors import ArrivalError, InputError

DTYPES = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
          "float16", "float32", "float64")  # fmt: skip
"""What `input_dtype` can be."""
Kind = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and type of an input."""


@dataclass(frozen=True)
class InputSpec:
    """Shape and type of one input of a device, as far as they are fixed.

    It only says what is accepted: no sub-model follows from it.

    Attributes
    ----------
    shape
        Of one input; None where the learner alone decides.
    dtype
        Inputs of the same kind of number are accepted: float64 for float32, whole numbers for either, but no float32
        for int64. None where the learner alone decides.
    convert
        Whether inputs are kept as `dtype`; otherwise they stay as they came.
    source
        Where it comes from, for messages.
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
        """These inputs as the device keeps them.

        Raises
        ------
        ArrivalError
            If shape or type are others, or a value does not survive the conversion; it names row and value.

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
        with np.errstate(all="ignore"):  # what does not fit is looked for below
            made = x.astype(self.dtype)
        fits = np.isfinite(made) if made.dtype.kind == "f" else made == x
        if not fits.all():
            row = int(np.argmin(fits.reshape(len(x), -1).all(axis=1)))
            value = x[row][~fits[row]].flat[0]
            raise ArrivalError(f"inputs of user {user!r}: row {row} holds {value}, which {self.dtype} cannot hold")
        return made


def setting(shape: Sequence[int] | None, dtype: str | None) -> InputSpec:
    """What a device was told: inputs are kept so, or refused."""
    return InputSpec(None if shape is None else tuple(shape), dtype, convert=True)


def spec_of(given: InputSpec, learner: Learner, ledger: Ledger, staged: Callable[[], Kind | None]) -> InputSpec:
    """What a device takes: what was set; else what its learner says; else what it holds."""
    if given.shape is not None or learner.input_shape is not None:
        return given
    held = inferred(ledger, staged)
    return given if held is None else replace(held, dtype=given.dtype or held.dtype, convert=given.convert)


def check_round(uploads: Any, spec: InputSpec, learner: Learner) -> Any:
    """The uploads of a round as the device keeps them, if it can take all of them.

    Parameters
    ----------
    uploads
        By user (inputs, labels and perhaps more), or `Upload`s.
    """
    if not isinstance(uploads, Mapping):
        uploads = list(uploads)
        for upload in uploads:
            spec = check_upload(upload, spec, learner)
        return uploads
    found = {}
    for user, (x, y, *rest) in uploads.items():
        check_user(user)
        inputs, labels = check_arrays(user, x, y, spec, learner)
        spec = _fixed(spec, learner, inputs)
        found[user] = (inputs, labels, *rest)
    return found


def check_upload(upload: Upload, spec: InputSpec, learner: Learner) -> InputSpec:
    """Refuse an upload that the device cannot take: an `ArrivalError`, or what the learner raises.

    Returns
    -------
    InputSpec
        What those that come after it must be.
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


def _fixed(spec: InputSpec, learner: Learner, x: NDArray[Any]) -> InputSpec:
    """With a learner that says nothing of its inputs, the first ones decide for the others."""
    if spec.shape is not None or learner.input_shape is not None:
        return spec
    held = _held(x.shape[1:], x.dtype)
    return replace(held, dtype=spec.dtype or held.dtype, convert=spec.convert)


def check_arrays(
    user: str, x: ArrayLike, y: ArrayLike, spec: InputSpec, learner: Learner
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Inputs and labels as the device keeps them; rows are named as they are given.

    Raises
    ------
    InputError
        If the learner cannot learn from them, or they are not of the device's shape and type.
    """
    inputs, labels = checked(user, x, y, copy=False)
    inputs = spec.fitted(user, inputs)
    learner.check(ArrayUpload.restored(user, 0, range(len(labels)), inputs, labels, [], []))
    return inputs, labels


def inferred(ledger: Ledger, staged: Callable[[], Kind | None]) -> InputSpec | None:
    """Shape and type of the oldest retained sample; where none is retained, of one that waits for a round.

    For a learner that says nothing of its inputs. They follow from what is retained at this moment and are written
    down nowhere: what was forgotten decides nothing, and when nothing is retained any more nothing is fixed.
    """
    firsts = [next(iter(ledger.lineage(shard))) for shard in ledger.shards()]
    if not firsts:
        waiting = staged()
        return None if waiting is None else _held(*waiting)
    upload, held = min(firsts, key=lambda segment: (segment.key.round, segment.key)).pieces[0]
    if not isinstance(upload, WithArrays):
        return None
    x = upload.arrays(held[:1])[0]
    return _held(x.shape[1:], x.dtype)


def _held(shape: tuple[int, ...], dtype: np.dtype[Any]) -> InputSpec:
    known = dtype.name if dtype.name in DTYPES else None
    return InputSpec(tuple(shape) or None, known, source="what this device holds")
