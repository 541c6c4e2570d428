"""The kind of a device's samples: numbers of one type, in one shape. Uploads are made so, or refused.

What is refused follows from what the device is, and from the first samples that it took: never from what a particular
user uploaded.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cause.errors import CauseError
from cause.home.home import Home
from cause.serve.inputs import Form
from cause.serve.problems import ProblemError
from cause.units import format_bytes

T = TypeVar("T")


@dataclass(frozen=True)
class Kind:
    """One type, one shape."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def made(self, x: NDArray[Any], most_bytes: int) -> NDArray[Any]:
        """These inputs as such, or a 422; a 413 if they would take more than so many bytes.

        >>> Kind(np.dtype("uint8"), (2,)).made(np.array([[0.0, 7.0]]), 100)
        array([[0, 7]], dtype=uint8)
        """
        x = shaped(x, self.shape)
        if x.dtype == self.dtype:
            return x
        if x.size * self.dtype.itemsize > most_bytes:
            size, most = format_bytes(x.size * self.dtype.itemsize), format_bytes(most_bytes)
            raise ProblemError(413, f"inputs of {size} as {self.dtype}, the type of samples here: at most {most}")
        with np.errstate(all="ignore"):  # what does not fit is looked for below
            made = x.astype(self.dtype)
        if self.dtype.kind == "f":
            if not np.isfinite(made).all():
                raise ProblemError(422, f"there are inputs that are too large for {self.dtype}")
        elif not (made == x).all():
            raise ProblemError(422, f"this device's samples are {self.dtype}: there are inputs that are not")
        return made


def shaped(x: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Inputs in a shape, pictures with their channels first."""
    if len(shape) == 3 and x.shape[1:] == (*shape[1:], shape[0]) and x.shape[1:] != shape:
        x = np.moveaxis(x, -1, 1)  # as most tools hold them: height, width, channels
    values = math.prod(x.shape[1:])
    if values != math.prod(shape):
        raise ProblemError(422, f"an input has {values} values, not {math.prod(shape)}")
    return np.ascontiguousarray(x.reshape(-1, *shape))


class Kinds:
    """The kind of one device's samples: of those that it holds, or else of the first that it takes."""

    def __init__(self, home: Home, form: Form, most_bytes: int) -> None:
        self._home, self._form, self._most = home, form, most_bytes
        self._lock = threading.Lock()
        self._known: Kind | None = self._held()

    def taken(self, x: NDArray[Any], take: Callable[[NDArray[Any]], T]) -> T:
        """Let samples be taken as what they must be. Those that are taken first decide."""
        if self._known is not None:
            return take(self._known.made(x, self._most))
        with self._lock:
            if self._known is not None:
                return take(self._known.made(x, self._most))
            dtype = np.dtype(np.uint8 if x.dtype == np.uint8 else np.float32)
            kind = Kind(dtype, self._shape(x.shape[1:]))
            done = take(kind.made(x, self._most))
            self._known = kind
            return done

    def _shape(self, given: tuple[int, ...]) -> tuple[int, ...]:
        if self._form.shape is not None:
            return self._form.shape
        return given if self._form.values is None else (self._form.values,)

    def _held(self) -> Kind | None:
        """Of the oldest block: of a round's, or of what is staged."""
        for table in ("blocks", "staged"):
            row = self._home.database.row(f"SELECT key FROM {table} ORDER BY rowid LIMIT 1")
            if row is not None:
                try:
                    meta = self._home.store_.meta(bytes(row[0]))
                except CauseError:  # damaged: `cause doctor` tells
                    continue
                return Kind(_dtype(meta.dtype), self._shape(meta.shape))
        return None


def _dtype(given: np.dtype[Any]) -> np.dtype[Any]:
    """Bytes stay bytes; whole numbers of other types become float32, as in the requests' forms."""
    return given if given == np.uint8 or given.kind == "f" else np.dtype(np.float32)
