"""The recorded form of a sample: its features as integers, how many were clipped, and its input if that is kept."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.arrays import raw
from cause.errors import LearnerError

COUNT_BYTES = 4
DTYPE_BYTES = 8


def packed(codes: NDArray[Any], clipped: NDArray[np.uint32], inputs: NDArray[Any] | None = None) -> NDArray[np.uint8]:
    """Return one row of bytes a sample.

    Parameters
    ----------
    codes
        The features as integers, one row a sample.
    clipped
        How many features of each sample were clipped.
    inputs
        What the features were made of, if it is kept; its type is written before it.

    Examples
    --------
    >>> packed(np.array([[7, 255]], dtype=np.uint8), np.array([1], dtype=np.uint32)).tolist()
    [[7, 255, 1, 0, 0, 0]]
    """
    n = len(codes)
    parts = [_bytes(codes), _bytes(clipped.astype("<u4").reshape(n, 1))]
    if inputs is not None:
        name = inputs.dtype.str.encode().ljust(DTYPE_BYTES)
        parts.append(np.tile(np.frombuffer(name, dtype=np.uint8), (n, 1)))
        parts.append(_bytes(inputs.reshape(n, -1)))
    return np.concatenate(parts, axis=1)


def codes_of(rows: NDArray[Any], features: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the features of recorded samples.

    Raises
    ------
    LearnerError
        If the rows are not those of a learner with this many features.
    """
    width = features * dtype.itemsize
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] < width + COUNT_BYTES:
        raise LearnerError(f"recorded samples of shape {rows.shape} are not of a learner with {features} features")
    return np.ascontiguousarray(rows[:, :width]).view(dtype)


def clipped_of(rows: NDArray[Any], features: int, dtype: np.dtype[Any]) -> NDArray[np.uint32]:
    """Return how many features of each recorded sample were clipped."""
    start = features * dtype.itemsize
    return np.ascontiguousarray(rows[:, start : start + COUNT_BYTES]).view("<u4").reshape(-1)


def inputs_of(rows: NDArray[Any], features: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return the inputs of recorded samples; None if they were not kept."""
    start = features * dtype.itemsize + COUNT_BYTES
    if rows.shape[1] == start or not len(rows):
        return None
    kind = np.dtype(rows[0, start : start + DTYPE_BYTES].tobytes().decode().strip())
    return np.ascontiguousarray(rows[:, start + DTYPE_BYTES :]).view(kind).reshape(len(rows), *shape)


def _bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.frombuffer(raw(values), dtype=np.uint8).reshape(len(values), -1)
