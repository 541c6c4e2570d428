"""Conversion of uploaded inputs to the one dtype and the one shape that a device keeps.

Both follow from the learner and the settings, never from an upload. Otherwise the samples of one user would decide how
those of others are kept, and would still do so after they are forgotten.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.units import format_bytes
from cause.service.inputs import InputLayout
from cause.service.problems import ProblemError


@dataclass(frozen=True)
class InputConverter:
    """Converts inputs to a dtype and a shape, or refuses them."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    """Of one input; None where the learner does not fix it: inputs then keep their shape."""

    @classmethod
    def of(cls, layout: InputLayout, dtype: str) -> "InputConverter":
        """Return the converter for inputs of this layout and dtype."""
        return cls(np.dtype(dtype), layout.shape or (None if layout.values is None else (layout.values,)))

    def convert(self, x: NDArray[Any], most_bytes: int) -> NDArray[Any]:
        """Return the inputs in this shape and dtype.

        Parameters
        ----------
        x
            Inputs, one row a sample.
        most_bytes
            What a converted copy may take in memory.

        Raises
        ------
        ProblemError
            422 if the shape or a value does not fit; 413 if the result takes more than `most_bytes`.

        Examples
        --------
        >>> InputConverter(np.dtype("uint8"), (2,)).convert(np.array([[0.0, 7.0]]), 100)
        array([[0, 7]], dtype=uint8)
        """
        x = x if self.shape is None else reshape_inputs(x, self.shape)
        if x.dtype == self.dtype:
            return x
        if x.size * self.dtype.itemsize > most_bytes:
            size, most = format_bytes(x.size * self.dtype.itemsize), format_bytes(most_bytes)
            raise ProblemError(413, f"inputs of {size} as {self.dtype}, the type of samples here: at most {most}")
        with np.errstate(all="ignore"):  # values that do not fit are looked for below
            converted = x.astype(self.dtype)
        if self.dtype.kind == "f":
            if not (fits := np.isfinite(converted)).all():
                detail = f"there are inputs that are too large for {self.dtype}: {describe_misfit(x, fits)}"
                raise ProblemError(422, detail)
        elif not (fits := converted == x).all():
            detail = f"this device's samples are {self.dtype}: there are inputs that are not"
            raise ProblemError(422, f"{detail}: {describe_misfit(x, fits)}")
        return converted


def describe_misfit(x: NDArray[Any], fits: NDArray[np.bool_]) -> str:
    """Return the first row with a value that does not fit, and that value, for a message.

    >>> describe_misfit(np.array([[1.0], [300.0]]), np.array([[True], [False]]))
    'row 1 holds 300'
    """
    row = int(np.argmin(fits.reshape(len(x), -1).all(axis=1)))
    return f"row {row} holds {x[row].reshape(-1)[~fits[row].reshape(-1)][0]:g}"


def reshape_inputs(x: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return inputs in a shape, pictures with their channels first; a 422 if the number of values differs."""
    if len(shape) == 3 and x.shape[1:] == (*shape[1:], shape[0]) and x.shape[1:] != shape:
        x = np.moveaxis(x, -1, 1)  # most tools order pictures as height, width, channels
    values = math.prod(x.shape[1:])
    if values != math.prod(shape):
        raise ProblemError(422, f"an input has {values} values, not {math.prod(shape)}")
    return np.ascontiguousarray(x.reshape(-1, *shape))
