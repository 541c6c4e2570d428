"""Random filters: fixed features of pictures without public data, computed in integers by numpy alone."""

from hashlib import shake_256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import InputError
from cause.learners.additive.backbones.base import Backbone

SIDE = 6
FILTERS = 256
MOST_FILTERS = 8_192
LARGEST = 255
_BLOCK_BYTES = 1 << 25


class RandomFilters(Backbone):
    """Convolves pictures with random 6×6 filters, and sums what is positive and what is negative over four quarters.

    Values of a picture are from 0 to 255; others are rounded and clipped. Weights are whole numbers drawn from a hash
    of the seed, and sums stay below 2^24, which float32 holds exactly: the features have the same bits everywhere.

    Parameters
    ----------
    shape
        Channels, height and width of a picture.
    filters
        The number of filters; there are eight features for each.
    seed
        The seed of the weights.

    Raises
    ------
    InputError
        If pictures are smaller than a filter, or have too many channels.

    Examples
    --------
    >>> backbone = RandomFilters((1, 8, 8), filters=2, seed=0)
    >>> backbone.features, backbone.compute(np.full((1, 1, 8, 8), 9)).tolist()[0][:3]
    (16, [0, 0, 0])
    """

    def __init__(self, shape: tuple[int, ...], filters: int = FILTERS, seed: int = 0) -> None:
        if len(shape) != 3 or min(shape[1:]) < SIDE + 1:
            raise InputError(f"random filters need pictures of shape (channels, height, width) from {SIDE + 1} pixels")
        if not 1 <= filters <= MOST_FILTERS:
            raise InputError(f"the number of random filters (size) is from 1 to {MOST_FILTERS:,}, not {filters}")
        self._shape, self._filters, self._seed = shape, filters, seed
        inputs = shape[0] * SIDE * SIDE
        if inputs * LARGEST * 192 >= 1 << 24:
            raise InputError(f"pictures of {shape[0]} channels are too deep for random filters: at most 9 channels")
        drawn = shake_256(b"cause: random filters %d %d %d" % (seed, inputs, filters)).digest(inputs * filters)
        weights = np.frombuffer(drawn, dtype=np.uint8).reshape(inputs, filters).astype(np.int64) // 2 - 64
        weights -= weights.sum(axis=0) // inputs  # blind to brightness: the weights of a filter sum to 0
        weights -= np.arange(inputs)[:, None] < weights.sum(axis=0)
        self._weights = weights.astype(np.float32)
        # a sum of filtered values of a picture with strong edges becomes about 255
        height, width = (shape[1] - SIDE + 1 + 1) // 2, (shape[2] - SIDE + 1 + 1) // 2
        self._divisor = max(1, height * width * inputs)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        return self._shape

    @property
    def features(self) -> int:
        """Two signs and four quarters for each filter."""
        return 8 * self._filters

    @property
    def scale(self) -> tuple[float, float]:
        """Features are whole numbers from 0 to 255."""
        return 0.0, float(LARGEST)

    @property
    def regularization(self) -> float:
        """The best on CIFAR-10 with 300 to 8,000 pictures was 0.01 to 0.03."""
        return 0.02

    @property
    def identity(self) -> dict[str, Any]:
        """Shape, number and seed; no runtime, since integers are the same in each."""
        return {"backbone": "random-filters", "shape": list(self._shape), "filters": self._filters, "seed": self._seed}

    def compute(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the features of pictures, from 0 to 255."""
        pixels = np.clip(np.floor(x.astype(np.float64) + 0.5), 0, LARGEST).astype(np.float32)
        height, width = self._shape[1] - SIDE + 1, self._shape[2] - SIDE + 1
        found = np.empty((len(x), self.features), dtype=np.int64)
        block = max(1, _BLOCK_BYTES // (height * width * (self._filters + len(self._weights)) * 4))
        for start in range(0, len(x), block):
            part = pixels[start : start + block]
            patches = np.lib.stride_tricks.sliding_window_view(part, (SIDE, SIDE), axis=(2, 3))
            rows = patches.transpose(0, 2, 3, 1, 4, 5).reshape(-1, len(self._weights))
            sums = (rows @ self._weights).reshape(len(part), height, width, self._filters)
            found[start : start + block] = self._pooled(sums)
        return found

    def _pooled(self, sums: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the sums of positive and of negative values over the four quarters, divided by a constant."""
        middle, centre = (sums.shape[1] + 1) // 2, (sums.shape[2] + 1) // 2
        parts = []
        for rows in (slice(None, middle), slice(middle, None)):
            for columns in (slice(None, centre), slice(centre, None)):
                quarter = sums[:, rows, columns]
                for side in (quarter, -quarter):
                    parts.append(np.maximum(side, 0).sum(axis=(1, 2), dtype=np.float64))  # whole numbers below 2^53
        pooled = np.concatenate(parts, axis=1).astype(np.int64) // self._divisor
        return np.minimum(pooled, LARGEST)
