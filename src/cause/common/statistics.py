"""Means over seeds, with confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

_FEW = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}  # Student's t, 97.5 %, where the expansion below is too coarse


@dataclass(frozen=True)
class Mean:
    """A mean with the half width of its 95 % confidence interval (none from a single value).

    >>> Mean.of([10.0, 12.0, 14.0, 16.0])
    Mean(value=13.0, half_width=4.10...)
    """

    value: float
    half_width: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Return the mean of these values."""
        if len(values) < 2:
            return cls(fmean(values), None)
        return cls(fmean(values), student_t(len(values) - 1) * stdev(values) / len(values) ** 0.5)

    @classmethod
    def of_ratios(cls, values: Sequence[float], others: Sequence[float]) -> "Mean":
        """Return the mean of the ratios of values that belong together, such as of two systems on one workload.

        Pairs whose other value is 0 are left out.

        Parameters
        ----------
        values
            The numerators.
        others
            The denominators, in the same order.

        Raises
        ------
        ValueError
            If there are not as many of both.
        statistics.StatisticsError
            If no pair is left.

        Examples
        --------
        >>> Mean.of_ratios([1.0, 2.2], [2.0, 4.0]).value
        0.525
        """
        return cls.of([value / other for value, other in zip(values, others, strict=True) if other])

    def __format__(self, spec: str) -> str:
        around = "" if self.half_width is None else f" ± {self.half_width:{spec}}"
        return f"{self.value:{spec}}{around}"


def student_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution (Cornish-Fisher expansion).

    >>> [round(student_t(n), 2) for n in (1, 4, 9, 29)]
    [12.71, 2.78, 2.26, 2.05]
    """
    if freedom in _FEW:
        return _FEW[freedom]
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
