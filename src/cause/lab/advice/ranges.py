"""One range a column, rounded to one digit: a scale for tables in mixed units."""

import numpy as np
from numpy.typing import NDArray

from cause.errors import InputError
from cause.learners.additive import public_scale

MOST_COLUMNS = 1_000
"""More would make a command of more than 10,000 characters."""


def ranges_of(x: NDArray[np.generic]) -> list[list[float]] | None:
    """Return the lowest and the highest value of each column, without tails, rounded outward to one digit.

    They are as coarse as what a data sheet says: each is a multiple of the power of ten below the width of its range.

    Parameters
    ----------
    x
        The inputs, one row a sample.

    Returns
    -------
    list or None
        Two lists, as `AdditiveLearner(scale=…)` takes them; None for values that are not finite and for many columns.

    Examples
    --------
    >>> ranges_of(np.array([[0.2, 1130.0], [1.4, 1890.0], [0.9, 1204.0]]))
    [[0.0, 1100.0], [2.0, 1900.0]]
    """
    rows = x.reshape(len(x), -1)
    if rows.shape[1] > MOST_COLUMNS:
        return None
    try:
        low, high = (np.asarray(side) for side in public_scale(rows))
    except InputError:
        return None
    step = 10.0 ** np.floor(np.log10(high - low))
    rounded = np.floor(low / step) * step, np.ceil(high / step) * step
    return [[float(f"{value:.9g}") for value in side] for side in rounded]
