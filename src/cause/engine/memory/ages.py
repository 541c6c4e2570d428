"""Estimates how likely requests name data of each age, from counts of the requests so far."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

EXACT = 16
"""Ages below this are counted one by one; higher ones in four ranges for each doubling."""
FACTORS = (*(round(0.05 * step, 2) for step in range(20)), 0.97, 0.99, 1.0)
"""The factors f of the distributions P(age a) ∝ f^a that are weighed against each other."""
DOUBT = 1.0
"""So many requests of one age count as much as the fitted distribution does."""

Floats = NDArray[np.float64]


def age_range(age: int) -> int:
    """Return the number of the range of ages that an age belongs to.

    >>> [age_range(age) for age in (0, 15, 16, 19, 20, 31, 32, 1_000_000)]
    [0, 15, 16, 16, 17, 19, 20, 79]
    """
    if age < EXACT:
        return age
    doublings = age.bit_length() - 1
    return EXACT + 4 * (doublings - 4) + ((age >> (doublings - 2)) & 3)


def first_age(number: int) -> int:
    """Return the lowest age of a range.

    >>> [first_age(number) for number in (0, 15, 16, 17, 19, 20)]
    [0, 15, 16, 20, 28, 32]
    """
    if number < EXACT:
        return number
    doublings, quarter = divmod(number - EXACT, 4)
    return (4 + quarter) << (doublings + 2)


class RequestAges:
    """Counts requests by the age of what they named, and estimates how likely each age is.

    Two counts are kept for each range of ages: how many requests named it, and how many were made when it was the
    oldest one that there was. The second is needed because a young device has no old data to forget.

    The estimate is a distribution P(age a) ∝ f^a, averaged over the factors f by how well each explains the requests so
    far, and corrected for each age by the requests that named it. Before the first request all factors are as likely.

    Examples
    --------
    >>> ages = RequestAges()
    >>> for _ in range(50):
    ...     ages.add(age=0, oldest=9)
    >>> weights = ages.weights(10)
    >>> bool(weights[0] > 20 * weights[5])
    True
    """

    def __init__(self) -> None:
        self.named: dict[int, int] = {}
        self.oldest: dict[int, int] = {}

    def add(self, age: int, oldest: int) -> None:
        """Count a request.

        Parameters
        ----------
        age
            The age of what it named, in rounds.
        oldest
            The highest age that it could have named.
        """
        for counts, number in ((self.named, age_range(age)), (self.oldest, age_range(oldest))):
            counts[number] = counts.get(number, 0) + 1

    def state(self) -> dict[str, int]:
        """Return the counts by name."""
        named = {f"named_{number}": count for number, count in sorted(self.named.items())}
        return named | {f"oldest_{number}": count for number, count in sorted(self.oldest.items())}

    def restore(self, state: Mapping[str, int]) -> None:
        """Replace the counts by those that `state` returned."""
        self.named, self.oldest = {}, {}
        for name, count in state.items():
            kind, _, number = name.partition("_")
            (self.named if kind == "named" else self.oldest)[int(number)] = count

    def weights(self, ages: int) -> Floats:
        """Return how likely each of the ages 0, 1, 2 … is to be named, up to a common factor.

        Parameters
        ----------
        ages
            The number of ages.
        """
        ranges = 1 + max(age_range(max(0, ages - 1)), *self.named, *self.oldest, 0)
        first = np.array([first_age(number) for number in range(ranges + 1)], dtype=np.float64)
        widths, middle = np.diff(first), (first[:-1] + first[1:] - 1) / 2
        named, oldest = (_array(counts, ranges) for counts in (self.named, self.oldest))
        shapes = np.power(np.array(FACTORS)[:, None], middle)  # P(age) of each factor, up to a constant
        shapes = np.maximum(shapes, 1e-300)
        reach = np.cumsum(shapes * widths, axis=1)  # the sum over all ages up to a range
        likelihood = np.log(shapes) @ named - np.log(reach) @ oldest
        belief = np.exp(likelihood - likelihood.max())
        belief /= belief.sum()
        # each request is shared out among the ages that there were, in proportion to their weights
        shares = shapes / reach[:, -1:]
        later = np.cumsum((oldest / reach)[:, ::-1], axis=1)[:, ::-1]
        expected = belief @ (shapes * widths * later)
        fitted = belief @ shares
        by_range = fitted * (named + DOUBT) / (expected + DOUBT)
        numbers = [age_range(age) for age in range(ages)]
        return np.asarray(by_range[numbers])


def _array(counts: Mapping[int, int], ranges: int) -> Floats:
    array = np.zeros(ranges)
    for number, count in counts.items():
        array[number] = count
    return array
