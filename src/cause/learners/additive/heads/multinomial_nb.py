"""Multinomial naive Bayes: features are counts, and their sums in each class give the frequencies."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.learners.additive.heads.base import LeftOut, Rows, Solution, softmax
from cause.learners.additive.heads.class_sums import ClassSums
from cause.learners.additive.sums import Sums

SMOOTHING = 1.0
"""Added to each sum, as in scikit-learn."""


@dataclass(frozen=True)
class Frequencies(Solution):
    """The logarithm of each feature's frequency in each class."""

    def probabilities(self, z: Rows) -> NDArray[np.float64]:
        """Return the shares of the likelihoods, weighted by the classes' numbers of samples."""
        return softmax(self.scores(z))

    def scores(self, z: Rows) -> NDArray[np.float64]:
        """Return logarithms of the likelihoods; a class without samples has -inf."""
        return np.asarray(z @ self.arrays["weights"] + self.arrays["prior"])


class MultinomialNB(ClassSums):
    """Takes the features as counts of independent events, as those of words in a text."""

    def solve(self, sums: Sums) -> Solution:
        """Return the logarithms of the smoothed frequencies."""
        table = sums.parts["sums"].astype(np.float64)
        return Frequencies(_fitted(table, table[-1].sum()))

    def leave_one_out(self, sums: Sums) -> LeftOut:
        """Return a function of samples: scores without each, which is subtracted from its class."""
        table = sums.parts["sums"].astype(np.float64)
        solution = Frequencies(_fitted(table, table[-1].sum()))

        def left_out(z: Rows, y: NDArray[np.int64]) -> NDArray[np.float64]:
            scores = solution.scores(z)
            for row, label in enumerate(y.tolist()):
                own = Frequencies(_fitted(table[:, [label]] - z[row][:, None], table[-1].sum()))
                scores[row, label] = own.scores(z[row][None])[0, 0]
            return scores

        return left_out


def _fitted(table: NDArray[np.float64], samples: float) -> dict[str, NDArray[np.float64]]:
    smoothed = table[:-1] + SMOOTHING
    weights = np.log(smoothed) - np.log(smoothed.sum(axis=0))
    with np.errstate(divide="ignore"):
        prior = np.log(table[-1] / max(samples, 1))
    return {"weights": np.concatenate([weights, np.zeros((1, weights.shape[1]))]), "prior": prior}
