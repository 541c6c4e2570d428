"""Contrast filters: random filters on patches of normalised contrast. They need no public data."""

from hashlib import shake_256
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cause.learners.additive.backbones.filters import FILTERS, LARGEST, Filters

SIDE = 5
MOST_CHANNELS = 40
_CONTRAST = 100
"""Added to the variance of a patch, in squares of grey levels, so that noise in flat places is not enlarged."""
_PATCH_UNIT = 32
_WEIGHT_UNIT = 256


class ContrastFilters(Filters):
    """Convolves pictures with random 5×5 filters, after evening out the contrast of each patch.

    From each patch of the picture its mean is subtracted, and it is divided by its deviation. The responses of random
    high-pass filters to it are averaged over the four quarters of the picture, positive and negative ones apart, and
    the features are the roots of these averages. A prototype was 2.7 points better than `RandomFilters` on CIFAR-10
    (`benchmarks.additive_filters`).

    Patches and weights are rounded to whole numbers whose sums stay below 2^24, which float32 holds exactly; everything
    else is one division or root a number, which IEEE 754 rounds in one way: the features have the same bits on every
    machine and in any batch. Parameters and errors are those of `Filters`.

    Examples
    --------
    >>> backbone = ContrastFilters((1, 8, 8), filters=2, seed=0)
    >>> backbone.features, backbone.compute(np.full((1, 1, 8, 8), 9)).tolist()[0][:3]
    (16, [0, 0, 0])
    """

    def __init__(self, shape: tuple[int, ...], filters: int = FILTERS, seed: int = 0) -> None:
        super().__init__("contrast-filters", SIDE, shape, MOST_CHANNELS, filters, seed)

    @property
    def regularization(self) -> float:
        """The best by leave-one-out on training pictures of CIFAR-100 and SVHN, `benchmarks.additive_filters`."""
        return 0.003

    def _drawn(self, inputs: int) -> NDArray[np.float32]:
        """Return whole weights of mean about 0 and length about 256, one column a filter, that blur to little."""
        name = b"cause: contrast filters %d %d %d" % (self._seed, inputs, self._filters)
        drawn = shake_256(name).digest(8 * inputs * self._filters)
        # a sum of eight uniform numbers is nearly normal
        uniform = np.frombuffer(drawn, dtype=np.uint8).reshape(8, self._filters, self._shape[0], SIDE, SIDE)
        draw = uniform.sum(axis=0, dtype=np.int64) - 4 * LARGEST
        # 180 (w − 0.8 · the mean of its neighbours in 3×3), of which there are 4, 6 or 9
        padded = np.pad(draw, ((0, 0), (0, 0), (1, 1), (1, 1)))
        neighbours = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3)).sum(axis=(4, 5))
        along = np.where(np.isin(np.arange(SIDE), (0, SIDE - 1)), 2, 3)
        weights = (180 * draw - 144 // (along[:, None] * along) * neighbours).reshape(self._filters, inputs)
        weights -= weights.sum(axis=1, keepdims=True) // inputs
        lengths = np.sqrt(np.square(weights).sum(axis=1).astype(np.float64))  # of whole numbers below 2^53
        whole: NDArray[np.float32] = np.rint(weights.T * float(_WEIGHT_UNIT) / lengths).astype(np.float32)
        return whole

    def _patches(self, rows: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return patches less their mean and divided by their deviation, in whole numbers of 1/32."""
        inputs = rows.shape[1]
        centred = inputs * rows - rows.sum(axis=1, keepdims=True)  # whole numbers
        squares = np.square(centred).sum(axis=1, keepdims=True)  # whole numbers below 2^53
        lengths = np.sqrt(squares + _CONTRAST * inputs**3)
        whole: NDArray[np.float32] = np.rint(centred * (_PATCH_UNIT * sqrt(inputs)) / lengths).astype(np.float32)
        return whole

    def _feature(self, total: NDArray[np.float64], places: int) -> NDArray[np.float64]:
        # a mean response of 1, in units of a normalised patch and a filter of length 1, becomes 128
        feature: NDArray[np.float64] = np.rint(np.sqrt(total * (128.0**2 / (_PATCH_UNIT * _WEIGHT_UNIT)) / places))
        return feature
