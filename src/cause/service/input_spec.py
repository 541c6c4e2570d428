"""The kind of a device's samples: numbers of one type, in one shape. Uploads are made so, or refused.

Which ones follows from the learner and the settings, never from what anybody uploaded: somebody's samples would
otherwise decide how others' are kept, and still do so when they are forgotten.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.units import format_bytes
from cause.service.inputs import Form
from cause.service.problems import ProblemError


@dataclass(frozen=True)
class Kind:
    """One type, one shape."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    """None where the learner does not say: then inputs stay in theirs."""

    @classmethod
    def of(cls, form: Form, samples: str) -> "Kind":
        """As the learner and the settings have it."""
        return cls(np.dtype(samples), form.shape or (None if form.values is None else (form.values,)))

    def made(self, x: NDArray[Any], most_bytes: int) -> NDArray[Any]:
        """These inputs as such, or a 422; a 413 if they would take more than so many bytes.

        >>> Kind(np.dtype("uint8"), (2,)).made(np.array([[0.0, 7.0]]), 100)
        array([[0, 7]], dtype=uint8)
        """
        x = x if self.shape is None else shaped(x, self.shape)
        if x.dtype == self.dtype:
            return x
        if x.size * self.dtype.itemsize > most_bytes:
            size, most = format_bytes(x.size * self.dtype.itemsize), format_bytes(most_bytes)
            raise ProblemError(413, f"inputs of {size} as {self.dtype}, the type of samples here: at most {most}")
        with np.errstate(all="ignore"):  # what does not fit is looked for below
            made = x.astype(self.dtype)
        if self.dtype.kind == "f":
            if not (fits := np.isfinite(made)).all():
                raise ProblemError(422, f"there are inputs that are too large for {self.dtype}: {first_of(x, fits)}")
        elif not (fits := made == x).all():
            told = f"this device's samples are {self.dtype}: there are inputs that are not"
            raise ProblemError(422, f"{told}: {first_of(x, fits)}")
        return made


def first_of(x: NDArray[Any], fits: NDArray[np.bool_]) -> str:
    """The first row with a value that does not fit.

    >>> first_of(np.array([[1.0], [300.0]]), np.array([[True], [False]]))
    'row 1 holds 300'
    """
    row = int(np.argmin(fits.reshape(len(x), -1).all(axis=1)))
    return f"row {row} holds {x[row].reshape(-1)[~fits[row].reshape(-1)][0]:g}"


def shaped(x: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Inputs in a shape, pictures with their channels first."""
    if len(shape) == 3 and x.shape[1:] == (*shape[1:], shape[0]) and x.shape[1:] != shape:
        x = np.moveaxis(x, -1, 1)  # as most tools hold them: height, width, channels
    values = math.prod(x.shape[1:])
    if values != math.prod(shape):
        raise ProblemError(422, f"an input has {values} values, not {math.prod(shape)}")
    return np.ascontiguousarray(x.reshape(-1, *shape))
