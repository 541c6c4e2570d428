"""The sum of z·zᵀ over samples: the upper triangle of a symmetric matrix of int64, in panels of rows."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cause.errors import LearnerError

PANEL = 128
"""Rows of a panel. A panel holds the columns from its own first row on, so all panels together hold little more than
the triangle."""


class Triangle:
    """A symmetric matrix of whole numbers.

    Parameters
    ----------
    size
        The number of rows and columns.

    Examples
    --------
    >>> triangle = Triangle(2)
    >>> triangle.add(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> triangle.subtract(np.array([[1.0, 2.0]]))
    >>> triangle.matrix().tolist()
    [[9.0, 12.0], [12.0, 16.0]]
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._panels = [np.zeros((stop - start, size - start), dtype=np.int64) for start, stop in _cuts(size)]

    @staticmethod
    def bytes_of(size: int) -> int:
        """Return the number of bytes of a matrix of this size."""
        return size * (size + 1) // 2 * 8

    def add(self, z: NDArray[np.float64]) -> None:
        """Add z·zᵀ of each row of z. Its values are whole numbers whose sums of products stay below 2^53."""
        for panel, (start, stop) in zip(self._panels, _cuts(self.size), strict=True):
            panel += (z[:, start:stop].T @ z[:, start:]).astype(np.int64)

    def subtract(self, z: NDArray[np.float64]) -> None:
        """Subtract z·zᵀ of each row of z, as `add` adds it."""
        for panel, (start, stop) in zip(self._panels, _cuts(self.size), strict=True):
            panel -= (z[:, start:stop].T @ z[:, start:]).astype(np.int64)

    def merge(self, other: "Triangle") -> None:
        """Add another matrix of the same size."""
        for panel, more in zip(self._panels, other._panels, strict=True):
            panel += more

    def copy(self) -> "Triangle":
        """Return a matrix of its own with the same numbers."""
        made = Triangle.__new__(Triangle)
        made.size, made._panels = self.size, [panel.copy() for panel in self._panels]
        return made

    def matrix(self) -> NDArray[np.float64]:
        """Return the whole matrix, rounded to float64."""
        full = np.empty((self.size, self.size))
        for panel, (start, stop) in zip(self._panels, _cuts(self.size), strict=True):
            full[start:stop, start:] = panel
            full[start:, start:stop] = panel.T
        return full

    def encoded(self) -> bytes:
        """Return the upper triangle, row by row, as little-endian int64."""
        return b"".join(
            panel[row, row:].astype("<i8", copy=False).tobytes() for panel in self._panels for row in range(len(panel))
        )

    @classmethod
    def decoded(cls, data: memoryview, size: int) -> "Triangle":
        """Return the matrix of encoded bytes.

        Raises
        ------
        LearnerError
            If there are more or fewer bytes than a matrix of this size has.
        """
        if len(data) != cls.bytes_of(size):
            raise LearnerError(f"a triangle of {size} rows has {cls.bytes_of(size):,} bytes, not {len(data):,}")
        triangle, numbers, at = cls(size), np.frombuffer(data, dtype="<i8"), 0
        for panel, (start, _) in zip(triangle._panels, _cuts(size), strict=True):
            for row in range(len(panel)):
                count = size - start - row
                panel[row, row:] = numbers[at : at + count]
                at += count
            square = panel[:, : len(panel)]
            square += np.triu(square, 1).T
        return triangle


def _cuts(size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + PANEL, size)) for start in range(0, size, PANEL))
