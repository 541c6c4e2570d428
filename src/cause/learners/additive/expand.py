"""A fixed random layer between features and head: h = relu(R·(z - centre) + b), in whole numbers.

Weights and biases are drawn from a hash of the recipe's seed, never from data. Everything is computed in whole numbers
below 2^53, which float64 holds exactly, so the layer gives the same bits on every machine and for every batch.
"""

from hashlib import shake_256
from math import isqrt

import numpy as np
from numpy.typing import NDArray

LEVELS_BITS = 12
LARGEST = (1 << LEVELS_BITS) - 1
"""The largest value of a unit: one of 4,096 levels."""
_SIGMA = 37
"""The standard deviation of a weight: that of the sum of four bytes, divided by 4."""


class Expansion:
    """Random units over features.

    Parameters
    ----------
    features
        The number of features.
    largest
        The largest value of a feature; the smallest is 0.
    units
        The number of units.
    seed
        The seed of weights and biases.
    centre, spread
        A typical value of a feature, and how far features are from it, as whole numbers: constants. By default the
        middle and a quarter of the range.

    Examples
    --------
    >>> layer = Expansion(features=2, largest=255, units=3, seed=0)
    >>> layer.units_of(np.array([[0.0, 255.0], [128.0, 128.0]])).astype(int).tolist() == layer.units_of(
    ...     np.array([[0.0, 255.0]])).astype(int).tolist() + layer.units_of(np.array([[128.0, 128.0]])).astype(
    ...     int).tolist()
    True
    """

    def __init__(
        self, features: int, largest: int, units: int, seed: int, centre: int | None = None, spread: int | None = None
    ) -> None:
        self.units, self.centre = units, (largest + 1) // 2 if centre is None else centre
        drawn = shake_256(b"cause: weights of an expansion %d %d %d" % (seed, features, units))
        table = np.frombuffer(drawn.digest(features * units * 4), dtype=np.uint8)
        weights = (table.reshape(features, units, 4).sum(axis=2, dtype=np.int32) - 510) // 4
        self._weights = weights.astype(np.float64)
        far = (largest + 1) // 4 if spread is None else spread
        spread = isqrt(features * _SIGMA**2 * far**2)  # of a sum over the features
        draws = shake_256(b"cause: biases of an expansion %d %d %d" % (seed, features, units)).digest(units * 2)
        self._biases = ((np.frombuffer(draws, dtype="<u2").astype(np.int64) - 32_768) * spread >> 15).astype(np.float64)
        self.divisor = float(max(1, (4 * spread) >> LEVELS_BITS))

    def units_of(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the units of features, whole numbers from 0 to 4,095: one row a sample."""
        sums = (z - self.centre) @ self._weights
        sums += self._biases
        np.maximum(sums, 0.0, out=sums)
        sums /= self.divisor
        np.floor(sums, out=sums)
        return np.asarray(np.minimum(sums, LARGEST, out=sums))
