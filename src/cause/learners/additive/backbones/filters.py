"""What backbones of fixed filters have in common: filters slide over a picture, and four quarters are summed up."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import InputError
from cause.learners.additive.backbones.base import Backbone

FILTERS = 256
MOST_FILTERS = 8_192
LARGEST = 255
_BLOCK_BYTES = 1 << 25


class Filters(Backbone):
    """A backbone whose features are the responses of fixed filters, positive and negative ones apart, by quarters.

    Parameters
    ----------
    name
        Of the backbone, as a recipe has it.
    side
        Pixels along a side of a filter.
    shape
        Channels, height and width of a picture, whose values are from 0 to 255; others are rounded and clipped.
    most_channels
        How many channels a picture may have, so that sums stay exact.
    filters
        The number of filters; there are eight features for each.
    seed
        The seed of the weights.

    Raises
    ------
    InputError
        If pictures are smaller than a filter, have too many channels, or the number of filters is out of range.
    """

    def __init__(
        self, name: str, side: int, shape: tuple[int, ...], most_channels: int, filters: int, seed: int
    ) -> None:
        words = name.replace("-", " ")
        if len(shape) != 3 or min(shape[1:]) < side + 1:
            raise InputError(
                f"{words} need pictures of shape (channels, height, width) from {side + 1} pixels, not {shape}"
            )
        if shape[0] > most_channels:
            raise InputError(
                f"pictures of {shape[0]} channels are too deep for {words}: at most {most_channels} channels"
            )
        if not 1 <= filters <= MOST_FILTERS:
            raise InputError(f"the number of {words} (size) is from 1 to {MOST_FILTERS:,}, not {filters}")
        self._name, self._side, self._shape, self._filters, self._seed = name, side, shape, filters, seed
        self._weights = self._drawn(shape[0] * side * side)

    @abstractmethod
    def _drawn(self, inputs: int) -> NDArray[np.float32]:
        """Return the weights, whole numbers: one row a value of a patch, one column a filter."""

    @abstractmethod
    def _patches(self, rows: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the patches, one a row, as whole numbers that the weights are multiplied with."""

    @abstractmethod
    def _feature(self, total: NDArray[np.float64], places: int) -> NDArray[np.float64]:
        """Return the features, whole numbers from 0, of the sums of responses over a quarter of so many places."""

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
    def identity(self) -> dict[str, Any]:
        """Shape, number and seed; no runtime, since the numbers are the same in each."""
        return {"backbone": self._name, "shape": list(self._shape), "filters": self._filters, "seed": self._seed}

    def compute(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the features of pictures, from 0 to 255."""
        pixels = np.clip(np.floor(x.astype(np.float64) + 0.5), 0, LARGEST)
        height, width = self._shape[1] - self._side + 1, self._shape[2] - self._side + 1
        features = np.empty((len(x), self.features), dtype=np.int64)
        block = max(1, _BLOCK_BYTES // (height * width * (self._filters + 2 * len(self._weights)) * 4))
        for start in range(0, len(x), block):
            part = pixels[start : start + block]
            windows = np.lib.stride_tricks.sliding_window_view(part, (self._side, self._side), axis=(2, 3))
            rows = self._patches(windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, len(self._weights)))
            responses = (rows @ self._weights).reshape(len(part), height, width, self._filters)
            features[start : start + block] = self._pooled(responses)
        return features

    def _pooled(self, responses: NDArray[np.float32]) -> NDArray[np.float64]:
        middle, centre = (responses.shape[1] + 1) // 2, (responses.shape[2] + 1) // 2
        parts = []
        for rows in (slice(None, middle), slice(middle, None)):
            for columns in (slice(None, centre), slice(centre, None)):
                quarter = responses[:, rows, columns]
                places = quarter.shape[1] * quarter.shape[2]
                for side in (quarter, -quarter):
                    total = np.maximum(side, 0).sum(axis=(1, 2), dtype=np.float64)  # whole numbers below 2^53
                    parts.append(self._feature(total, places))
        return np.minimum(np.concatenate(parts, axis=1), LARGEST)
