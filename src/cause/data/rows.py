"""Uploads that share one array: each knows its rows, and nothing is copied until it is trained on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.positions import Positions
from cause.engine.arrays import Array, TraceData
from cause.engine.samples import TraceUpload
from cause.errors import InputError


class TraceRows(TraceData):
    """An upload of a trace in a real run, as rows of a data set that is in memory anyway.

    Forgotten samples leave the upload, but not the data set: this is for evaluation. A device that must not keep
    what it forgot takes `TraceData` or `ArrayUpload`. In another process it arrives as a `TraceData` with its own
    samples only.

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
        """Where these samples lie in the data set: for a learner that holds it on its device."""
        return self._rows[self._upload.indices(positions)]

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        return self._y[self.rows(positions)]

    def arrays(self, positions: Positions) -> tuple[Array, NDArray[np.int64]]:
        """Inputs and labels."""
        rows = self.rows(positions)
        return self._x[rows], self._y[rows]

    def keeping(self, positions: Positions) -> "TraceRows":
        """The upload with these samples only."""
        return TraceRows(self._upload.keeping(positions), self._x, self._y, self.rows(positions))

    def __reduce__(self) -> tuple[Callable[..., TraceData], tuple[Any, ...]]:
        return TraceData, (self._upload, *self.arrays(self._upload.positions))
