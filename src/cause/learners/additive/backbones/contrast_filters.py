"""Contrast filters: random filters on patches of normalised contrast. They need no public data."""

from hashlib import shake_256
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import InputError
from cause.learners.additive.backbones.base import Backbone

SIDE = 5
FILTERS = 256
MOST_FILTERS = 8_192
MOST_CHANNELS = 40
LARGEST = 255
_CONTRAST = 100
"""Added to the variance of a patch, in squares of grey levels, so that noise in flat places is not enlarged."""
_PATCH_UNIT = 32
_WEIGHT_UNIT = 256
_BLOCK_BYTES = 1 << 25


class ContrastFilters(Backbone):
    """Convolves pictures with random 5×5 filters, after evening out the contrast of each patch.

    From each patch of the picture its mean is subtracted, and it is divided by its deviation. The responses of random
    high-pass filters to it are averaged over the four quarters of the picture, positive and negative ones apart, and
    the features are the roots of these averages. A prototype was 2.7 points better than `RandomFilters` on CIFAR-10
    (`benchmarks.additive_filters`).

    Values of a picture are from 0 to 255; others are rounded and clipped. Patches and weights are rounded to whole
    numbers whose sums stay below 2^24, which float32 holds exactly; everything else is one division or root a number,
    which IEEE 754 rounds in one way: the features have the same bits on every machine and in any batch.

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
    >>> backbone = ContrastFilters((1, 8, 8), filters=2, seed=0)
    >>> backbone.features, backbone.compute(np.full((1, 1, 8, 8), 9)).tolist()[0][:3]
    (16, [0, 0, 0])
    """

    def __init__(self, shape: tuple[int, ...], filters: int = FILTERS, seed: int = 0) -> None:
        if len(shape) != 3 or min(shape[1:]) < SIDE + 1:
            raise InputError(
                f"contrast filters need pictures of shape (channels, height, width) from {SIDE + 1} pixels, not {shape}"
            )
        if shape[0] > MOST_CHANNELS:
            raise InputError(
                f"pictures of {shape[0]} channels are too deep for contrast filters: at most {MOST_CHANNELS}"
            )
        if not 1 <= filters <= MOST_FILTERS:
            raise InputError(f"the number of contrast filters (size) is from 1 to {MOST_FILTERS:,}, not {filters}")
        self._shape, self._filters, self._seed = shape, filters, seed
        self._weights = _weights(shape[0], filters, seed)

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
        """The best by leave-one-out on training pictures of CIFAR-100 and SVHN, `benchmarks.additive_filters`."""
        return 0.003

    @property
    def identity(self) -> dict[str, Any]:
        """Shape, number and seed; no runtime, since the numbers are the same in each."""
        return {
            "backbone": "contrast-filters",
            "shape": list(self._shape),
            "filters": self._filters,
            "seed": self._seed,
        }

    def compute(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the features of pictures, from 0 to 255."""
        pixels = np.clip(np.floor(x.astype(np.float64) + 0.5), 0, LARGEST)
        height, width = self._shape[1] - SIDE + 1, self._shape[2] - SIDE + 1
        features = np.empty((len(x), self.features), dtype=np.int64)
        block = max(1, _BLOCK_BYTES // (height * width * (self._filters + 2 * len(self._weights)) * 4))
        for start in range(0, len(x), block):
            part = pixels[start : start + block]
            patches = np.lib.stride_tricks.sliding_window_view(part, (SIDE, SIDE), axis=(2, 3))
            rows = _normalised(patches.transpose(0, 2, 3, 1, 4, 5).reshape(-1, len(self._weights)))
            responses = (rows @ self._weights).reshape(len(part), height, width, self._filters)
            features[start : start + block] = _pooled(responses)
        return features


def _weights(channels: int, filters: int, seed: int) -> NDArray[np.float32]:
    """Return whole weights of mean about 0 and length about 256, one column a filter, that blur to little."""
    inputs = channels * SIDE * SIDE
    drawn = shake_256(b"cause: contrast filters %d %d %d" % (seed, inputs, filters)).digest(8 * inputs * filters)
    # a sum of eight uniform numbers is nearly normal
    uniform = np.frombuffer(drawn, dtype=np.uint8).reshape(8, filters, channels, SIDE, SIDE)
    draw = uniform.sum(axis=0, dtype=np.int64) - 4 * LARGEST
    # 180 (w − 0.8 · the mean of its neighbours in 3×3), of which there are 4, 6 or 9
    padded = np.pad(draw, ((0, 0), (0, 0), (1, 1), (1, 1)))
    neighbours = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3)).sum(axis=(4, 5))
    along = np.where(np.isin(np.arange(SIDE), (0, SIDE - 1)), 2, 3)
    weights = (180 * draw - 144 // (along[:, None] * along) * neighbours).reshape(filters, inputs)
    weights -= weights.sum(axis=1, keepdims=True) // inputs
    lengths = np.sqrt(np.square(weights).sum(axis=1).astype(np.float64))  # of whole numbers below 2^53
    whole: NDArray[np.float32] = np.rint(weights.T * float(_WEIGHT_UNIT) / lengths).astype(np.float32)
    return whole


def _normalised(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return patches, one a row, less their mean and divided by their deviation, in whole numbers of 1/32."""
    inputs = rows.shape[1]
    centred = inputs * rows - rows.sum(axis=1, keepdims=True)  # whole numbers
    squares = np.square(centred).sum(axis=1, keepdims=True)  # whole numbers below 2^53
    lengths = np.sqrt(squares + _CONTRAST * inputs**3)
    normalised: NDArray[np.float32] = np.rint(centred * (_PATCH_UNIT * sqrt(inputs)) / lengths).astype(np.float32)
    return normalised


def _pooled(responses: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the roots of the means of positive and of negative responses over the four quarters."""
    middle, centre = (responses.shape[1] + 1) // 2, (responses.shape[2] + 1) // 2
    parts = []
    for rows in (slice(None, middle), slice(middle, None)):
        for columns in (slice(None, centre), slice(centre, None)):
            quarter = responses[:, rows, columns]
            places = quarter.shape[1] * quarter.shape[2]
            for side in (quarter, -quarter):
                total = np.maximum(side, 0).sum(axis=(1, 2), dtype=np.float64)  # whole numbers
                # a mean response of 1, in units of a normalised patch and a filter of length 1, becomes 128
                parts.append(np.sqrt(total * (128.0**2 / (_PATCH_UNIT * _WEIGHT_UNIT)) / places))
    features: NDArray[np.int64] = np.minimum(np.rint(np.concatenate(parts, axis=1)), LARGEST).astype(np.int64)
    return features
