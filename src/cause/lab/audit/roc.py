"""How well scores tell members from others, with confidence intervals in closed form."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.errors import InputError

CONFIDENCE = 0.95
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % confidence interval.

    >>> 0.5 in Estimate(0.52, 0.46, 0.58), f"{Estimate(0.52, 0.46, 0.58):.2f}"
    (True, '0.52 [0.46, 0.58]')
    """

    value: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


def auc(scores: ArrayLike, member: ArrayLike) -> float:
    """Return how often a member scores higher than another sample, ties counting half: 0.5 is chance.

    >>> auc([3.0, 1.0, 2.0, 1.0], [True, True, False, False])
    0.625
    """
    return float(_placements(*_split(scores, member))[0].mean())


def auc_interval(scores: ArrayLike, member: ArrayLike) -> Estimate:
    """Return the AUC with the wider of two intervals: Newcombe's score interval and DeLong's.

    Newcombe's (his method 5) are the values that would not be rejected, each with the variance it would have itself
    after Hanley and McNeil: at 0.5 that of the Mann-Whitney test, and not nothing where all members score higher than
    all others. DeLong's needs no model of the scores, so it is right where only some members are memorised.

    >>> f"{auc_interval(range(20), [i >= 10 for i in range(20)]):.2f}"
    '1.00 [0.80, 1.00]'
    """
    members, others = _split(scores, member)
    placed = _placements(members, others)
    value, sizes = float(placed[0].mean()), (len(members), len(others))
    half = 0.0 if min(sizes) < 2 else _half_width(placed)
    low = min(_bound(value, 0.0, *sizes), max(0.0, value - half))
    return Estimate(value, low, max(_bound(value, 1.0, *sizes), min(1.0, value + half)))


def auc_difference(scores: ArrayLike, baseline: ArrayLike, member: ArrayLike) -> Estimate:
    """Return the AUC of some scores minus that of others for the same samples, paired (DeLong).

    >>> auc_difference([3, 1, 2, 1], [3, 1, 2, 1], [True, True, False, False])
    Estimate(value=0.0, low=0.0, high=0.0)
    """
    one, other = _placements(*_split(scores, member)), _placements(*_split(baseline, member))
    gains = one[0] - other[0], one[1] - other[1]
    if min(map(len, gains)) < 2:
        raise InputError(f"a difference needs 2 members and 2 others, not {len(gains[0])} and {len(gains[1])}")
    value = float(gains[0].mean())
    half = _half_width(gains)
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half))


def tpr_at(scores: ArrayLike, member: ArrayLike, fpr: float = 0.05) -> float:
    """Return the share of members above a threshold that at most `fpr` of the others pass: chance gives `fpr`.

    >>> tpr_at([9, 8, 1, 7, 2, 2], [True, True, True, False, False, False], fpr=0.34)
    0.666...
    """
    if not 0 <= fpr < 1:
        raise InputError(f"a false positive rate is from 0 to below 1, not {fpr}")
    members, others = _split(scores, member)
    falling = np.sort(others)[::-1]
    return float((members > falling[math.floor(fpr * len(others))]).mean())


def detectable_auc(members: int, others: int, power: float = 0.8) -> float:
    """Return the smallest AUC that an audit of this size tells from chance with probability `power`.

    >>> round(detectable_auc(200, 200), 2), round(detectable_auc(20, 20), 2)
    (0.58, 0.76)
    """
    return min(1.0, 0.5 + (_z() + NormalDist().inv_cdf(power)) * math.sqrt(_variance(0.5, members, others)))


def _z() -> float:
    return NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def _split(scores: ArrayLike, member: ArrayLike) -> tuple[Floats, Floats]:
    values, chosen = np.asarray(scores, dtype=np.float64), np.asarray(member)
    if chosen.dtype != np.bool_ or values.ndim != 1 or values.shape != chosen.shape:
        raise InputError(
            f"one score and one True or False a sample, not {values.shape} scores and {chosen.shape} {chosen.dtype}"
        )
    if np.isnan(values).any():
        raise InputError(f"the score of sample {int(np.isnan(values).argmax())} is not a number")
    if chosen.all() or not chosen.any():
        raise InputError(f"members and others are needed, not {int(chosen.sum())} members of {len(chosen)} samples")
    return values[chosen], values[~chosen]


def _placements(members: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Return the share of the others below each member, and that of the members above each other; ties count half."""
    both = _ranks(np.concatenate([members, others]))
    below = (both[: len(members)] - _ranks(members)) / len(others)
    above = 1 - (both[len(members) :] - _ranks(others)) / len(members)
    return below, above


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1; equal values share their mean rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[which])


def _half_width(placed: tuple[Floats, Floats]) -> float:
    """Return half the width of DeLong's interval: an AUC varies with the drawn members and others."""
    return _z() * math.sqrt(sum(float(part.var(ddof=1)) / len(part) for part in placed))


def _variance(value: float, members: int, others: int) -> float:
    """Return Hanley and McNeil's variance of an AUC, with the mean of both sizes in place of each (Newcombe)."""
    mean = (members + others) / 2
    spread = 2 * mean - 1 - (3 * mean - 3) / ((2 - value) * (1 + value))
    return value * (1 - value) * spread / (members * others)


def _bound(value: float, end: float, members: int, others: int) -> float:
    """Return the bound of an interval, by bisection: as far from the value as its own variance allows."""
    inside, outside = value, end
    for _ in range(60):
        middle = (inside + outside) / 2
        if abs(value - middle) <= _z() * math.sqrt(_variance(middle, members, others)):
            inside = middle
        else:
            outside = middle
    return inside
