"""Uploads that are rows of one shared array; they are copied only when they are trained on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.positions import Positions
from cause.engine.arrays import Array, TraceData
from cause.engine.samples import TraceUpload
from cause.errors import InputError


class TraceRows(TraceData):
    """An upload of a trace in a real run, as rows of a data set in memory.

    For evaluation only: forgotten samples leave the upload, but stay in the data set. A device that must delete what it
    forgets takes `TraceData` or `ArrayUpload`. Pickled for another process, it becomes a `TraceData` with copies of its
    samples.

    Parameters
    ----------
    upload
        The upload of the trace.
    x
        The inputs of the data set.
    y
        The labels of the data set.
    rows
        The rows of the upload's samples, in the order of its positions.

    Raises
    ------
    InputError
        If there are not as many rows as samples.

    Examples
    --------
    >>> from cause.engine.samples import Part
    >>> x, y = np.arange(10.0)[:, None], np.arange(10)
    >>> TraceRows(TraceUpload("u7", 1, (Part(2),)), x, y, np.array([4, 9])).arrays(range(1, 2))
    (array([[9.]]), array([9]))
    """

    def __init__(self, upload: TraceUpload, x: Array, y: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        if len(rows) != len(upload.positions):
            raise InputError(f"user {upload.user!r} has {len(upload.positions)} samples in the trace, not {len(rows)}")
        self._upload, self._x, self._y, self._rows = upload, x, y, rows

    def rows(self, positions: Positions) -> NDArray[np.int64]:
        """Return the rows of these samples in the data set, for a learner that holds the data set on its device."""
        return self._rows[self._upload.indices(positions)]

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        """Return the labels of these samples."""
        return self._y[self.rows(positions)]

    def arrays(self, positions: Positions) -> tuple[Array, NDArray[np.int64]]:
        """Return the inputs and labels of these samples."""
        rows = self.rows(positions)
        return self._x[rows], self._y[rows]

    def keeping(self, positions: Positions) -> "TraceRows":
        """Return the upload with these samples only."""
        return TraceRows(self._upload.keeping(positions), self._x, self._y, self.rows(positions))

    def __reduce__(self) -> tuple[Callable[..., TraceData], tuple[Any, ...]]:
        return TraceData, (self._upload, *self.arrays(self._upload.positions))
