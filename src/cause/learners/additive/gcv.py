"""λ of a ridge head by generalised cross-validation: chosen from the state alone, from a fixed grid.

For a λ the score is the mean squared error on the samples over (1 - p/n)², where p is the trace of the matrix that maps
labels to predictions and n the number of samples: the mean squared error of leave-one-out, with all leverages replaced
by their mean. Both follow from the eigenvalues of Σ z·zᵀ, so no sample is read and none is held out.

An eigendecomposition takes many times as long as a solution. So only the first `MOST` entries of a sample are looked
at. Units of a random layer are exchangeable, and λ is relative to the mean squared length, so some of them suggest
nearly the same λ as all (`python -m benchmarks.additive_tables` compares both).
"""

import numpy as np
from numpy.typing import NDArray

from cause.errors import LearnerError

GCV = "gcv"
"""The setting of a recipe that asks for this rule instead of a constant."""
SHARES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The grid: shares of the mean squared length of a sample's features."""
MOST = 1_024


def share_by_gcv(gram: NDArray[np.float64], cross: NDArray[np.float64], samples: int, most: int = MOST) -> float:
    """Return the share of the mean squared length with the lowest score.

    Parameters
    ----------
    gram
        Σ z·zᵀ; the last entry of z is the constant 1.
    cross
        Σ z·onehot(y)ᵀ.
    samples
        How many samples are in the sums.
    most
        How many entries of z are looked at, besides the constant.

    Raises
    ------
    LearnerError
        If the eigenvalues cannot be computed.

    Examples
    --------
    >>> z = np.array([[0.0, 1], [1, 1], [2, 1], [9, 1], [10, 1], [11, 1]])
    >>> labels = np.repeat(np.eye(2), 3, axis=0)
    >>> share_by_gcv(z.T @ z, z.T @ labels, 6)
    0.02
    """
    if not samples:
        return SHARES[-1]
    used = min(most, len(gram) - 1)
    mean, counts = gram[-1, :used] / samples, cross[-1]
    centred = gram[:used, :used] - samples * np.outer(mean, mean)
    try:
        values, vectors = np.linalg.eigh(centred)
    except np.linalg.LinAlgError as error:
        raise LearnerError(f"λ cannot be chosen: {error}; give a regularization") from None
    values = np.maximum(values, 0.0)  # rounding
    power = ((vectors.T @ (cross[:used] - np.outer(mean, counts))) ** 2).sum(axis=1)
    variance = samples - (counts**2).sum() / samples  # of the one-hot labels
    length = max(float(np.trace(gram[:used, :used])), 1.0) / samples
    scores = [_score(values, power, variance, samples, share * length) for share in SHARES]
    return SHARES[int(np.argmin(scores))]


def _score(
    values: NDArray[np.float64], power: NDArray[np.float64], variance: float, samples: int, penalty: float
) -> float:
    """Return the score of one λ, up to a factor."""
    inverse = 1.0 / (values + penalty)
    squares = variance - float((power * inverse * (2.0 - values * inverse)).sum())
    free = samples - 1.0 - float((values * inverse).sum())  # n - p
    return max(squares, 0.0) / max(free, 1e-6 * samples) ** 2
