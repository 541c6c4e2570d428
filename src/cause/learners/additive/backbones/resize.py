"""Bilinear scaling of pictures, by numpy alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def resized(x: NDArray[Any], size: int) -> NDArray[np.float32]:
    """Scale pictures to a square, as torch does with `align_corners=False`.

    Parameters
    ----------
    x
        Pictures: number, channels, height, width.
    size
        The side of the result.

    Examples
    --------
    >>> resized(np.array([[[[0.0, 4.0], [8.0, 12.0]]]]), 4)[0, 0, 0].tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    pictures = x.astype(np.float32)
    for axis in (2, 3):
        side = pictures.shape[axis]
        if side == size:
            continue
        at = np.clip((np.arange(size, dtype=np.float64) + 0.5) * (side / size) - 0.5, 0, side - 1)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, side - 1)
        share = (at - low).astype(np.float32).reshape((-1, 1) if axis == 2 else (-1,))
        first, second = np.take(pictures, low, axis=axis), np.take(pictures, high, axis=axis)
        pictures = first + (second - first) * share
    return pictures
