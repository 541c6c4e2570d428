"""Scales: features become integers by constants that no data decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.errors import ArrivalError, InputError

BITS = (8, 12, 16)
Numbers = float | tuple[float, ...]
SMALLEST, FARTHEST = float(np.finfo(np.float64).tiny), 1e300
"""The smallest half of a range, and the largest distance from its middle in such halves: farther ones are the same."""


@dataclass(frozen=True)
class Scale:
    """Maps features to whole numbers from 0 to 2^bits - 1.

    A linear scale maps `low` to 0 and `high` to the largest number, and clips what is outside. A squashing one maps
    every number, however large: `low` and `high` to a quarter and three quarters of the range, by u / (1 + |u|).
    Only + - × ÷ and rounding are used, so the result has the same bits on every machine.

    Attributes
    ----------
    low, high
        One number for all features, or one for each feature.
    bits
        8, 12 or 16.
    squash
        Whether the scale is a squashing one.
    refuse
        Whether features outside of a linear scale are refused instead of clipped.

    Raises
    ------
    InputError
        If `low` is not below `high`, or the number of bits is another one.

    Examples
    --------
    >>> Scale(0.0, 10.0).codes(np.array([[0.0, 5.0, 12.0]]))
    (array([[  0, 128, 255]], dtype=uint8), array([1], dtype=uint32))
    >>> Scale(0.0, 10.0, squash=True).codes(np.array([[0.0, 5.0, 1e9]]))[0]
    array([[ 64, 128, 255]], dtype=uint8)
    """

    low: Numbers
    high: Numbers
    bits: int = 8
    squash: bool = False
    refuse: bool = False

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low, dtype=np.float64), np.asarray(self.high, dtype=np.float64)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise InputError(
                f"a scale is (low, high) with low below high, not ({_shown(self.low)}, {_shown(self.high)})"
            )
        with np.errstate(over="ignore"):
            half, middle = (high - low) / 2, low + high
        if not (np.isfinite(half).all() and np.isfinite(middle).all() and (half >= SMALLEST).all()):
            raise InputError(
                f"the distance between low and high of a scale is too large or too small for float64: "
                f"({_shown(self.low)}, {_shown(self.high)})"
            )
        if self.bits not in BITS or not isinstance(self.bits, int):
            raise InputError(f"a scale has 8, 12 or 16 bits, not {self.bits}")
        if self.refuse and self.squash:
            raise InputError("a squashing scale takes every number: out_of_scale='refuse' is for a linear one")

    @property
    def largest(self) -> int:
        """The largest number that a feature can become."""
        return (1 << self.bits) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return np.dtype(np.uint8 if self.bits == 8 else "<u2")

    def check(self, features: int) -> None:
        """Raise an `InputError` if the scale has one number for each of another number of features."""
        for name, numbers in (("low", self.low), ("high", self.high)):
            if isinstance(numbers, tuple) and len(numbers) != features:
                raise InputError(f"the scale has {len(numbers)} numbers as {name}, but there are {features} features")

    def codes(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """Return features as whole numbers, and how many features of each sample were clipped.

        Parameters
        ----------
        values
            One row a sample, one column a feature.

        Raises
        ------
        ArrivalError
            If a feature is not finite, or is outside of a scale that refuses such features.
        """
        with np.errstate(over="ignore"):
            x = values.astype(np.float64)
        finite = np.isfinite(x)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise ArrivalError(f"feature {column} of row {row} is {x[row, column]}: features must be finite numbers")
        low, high = np.asarray(self.low, dtype=np.float64), np.asarray(self.high, dtype=np.float64)
        if self.squash:
            with np.errstate(over="ignore"):
                u = (x - (low + high) / 2) / ((high - low) / 2)
            u = np.clip(u, -FARTHEST, FARTHEST)  # inf / inf is no number
            unit = (u / (1.0 + np.abs(u)) + 1.0) / 2
            outside = np.zeros(len(x), dtype=np.uint32)
        else:
            unit = (np.clip(x, low, high) - low) / (high - low)
            is_outside = (x < low) | (x > high)
            outside = is_outside.sum(axis=1).astype(np.uint32)
            if self.refuse and outside.any():
                row, column = np.argwhere(is_outside)[0]
                raise ArrivalError(
                    f"feature {column} of row {row} is {x[row, column]:g}, outside of the scale "
                    f"{_at(self.low, column):g} to {_at(self.high, column):g}"
                )
        whole = np.floor(unit * self.largest + 0.5)
        return np.clip(whole, 0, self.largest).astype(self.dtype), outside


def scale_of(setting: Any, bits: int, *, squash: bool, refuse: bool) -> Scale:
    """Return the scale of a recipe's setting: a pair (low, high), each a number or one for each feature.

    Raises
    ------
    InputError
        If the setting is anything else.
    """
    try:
        low, high = setting
        return Scale(_numbers(low), _numbers(high), bits, squash, refuse)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"a scale is a pair (low, high) of numbers, or of one number for each feature, not {_shown(setting)}"
        ) from None


def public_scale(rows: ArrayLike, tail: float = 0.01) -> tuple[list[float], list[float]]:
    """Return a scale for each feature that fits most of some public rows: constants for a recipe.

    Parameters
    ----------
    rows
        Public recordings, or some of one's own that are never uploaded: one row each. They must not be users' data,
        since a scale that was fitted on samples still shows them when they are forgotten.
    tail
        The share of values that may be below `low`, and above `high`.

    Returns
    -------
    tuple
        `low` and `high`, as `AdditiveLearner(scale=…)` takes them. A feature that is constant gets 1 on either side.

    Raises
    ------
    InputError
        If the rows are no table of finite numbers.

    Examples
    --------
    >>> public_scale([[0, 100, 5], [1, 300, 5], [2, 200, 5]])
    ([0.02, 102.0, 4.0], [1.98, 298.0, 6.0])
    """
    try:
        table = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("public rows are a table of numbers: one row each, one column a feature") from None
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise InputError(f"public rows are a table of finite numbers, not an array of shape {table.shape}")
    if not 0 <= tail < 0.5:
        raise InputError(f"tail is a share from 0 to below 0.5, not {tail}")
    low, high = np.quantile(table, [tail, 1 - tail], axis=0)
    flat = ~(low < high)
    low, high = np.where(flat, low - 1, low), np.where(flat, high + 1, high)
    return low.tolist(), high.tolist()


def _numbers(value: Any) -> Numbers:
    if isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim):
        return tuple(float(number) for number in value)
    return float(value)


def _at(numbers: Numbers, column: int) -> float:
    return numbers[column] if isinstance(numbers, tuple) else numbers


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
