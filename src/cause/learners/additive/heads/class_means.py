"""The nearest class mean: the sum of the features of each class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.learners.additive.heads.base import LeftOut, Rows, Solution, softmax
from cause.learners.additive.heads.class_sums import ClassSums
from cause.learners.additive.sums import Sums


@dataclass(frozen=True)
class NearestMean(Solution):
    """Scores are minus half the squared distances to the class means, up to a constant for each sample."""

    def probabilities(self, z: Rows) -> NDArray[np.float64]:
        """Return shares that fall with the squared distance, measured in squared lengths of a mean difference."""
        return softmax(self.scores(z) / self.arrays["spread"])

    def scores(self, z: Rows) -> NDArray[np.float64]:
        """Return the scores, which are linear in the features; a class without samples has -inf."""
        return np.asarray(z @ self.arrays["weights"] + self.arrays["absent"])


class ClassMeans(ClassSums):
    """Answers the class whose mean is nearest. Its state is small: one sum of features for each class."""

    def solve(self, sums: Sums) -> Solution:
        """Return the means of the classes as a linear classifier."""
        table = sums.parts["sums"].astype(np.float64)
        counts = table[-1]
        means = table[:-1] / np.maximum(counts, 1)
        weights = np.concatenate([means, [-0.5 * (means**2).sum(axis=0)]])
        centre = table[:-1].sum(axis=1, keepdims=True) / max(sums.samples, 1)
        seen = counts > 0
        spread = ((means[:, seen] - centre) ** 2).sum(axis=0).mean() if seen.any() else 1.0
        absent = np.where(seen, 0.0, -np.inf)
        return NearestMean({"weights": weights, "absent": absent, "spread": np.asarray(max(spread, 1.0))})

    def leave_one_out(self, sums: Sums) -> LeftOut:
        """Return a function of samples: the score of a sample's own class is of the mean of the others."""
        table, solution = sums.parts["sums"].astype(np.float64), self.solve(sums)

        def left_out(z: Rows, y: NDArray[np.int64]) -> NDArray[np.float64]:
            scores = z @ solution.arrays["weights"] + solution.arrays["absent"]
            others = table[-1, y] - 1
            means = (table[:-1, y].T - z[:, :-1]) / np.maximum(others, 1)[:, None]
            own = (z[:, :-1] * means).sum(axis=1) - 0.5 * (means**2).sum(axis=1)
            scores[np.arange(len(z)), y] = np.where(others > 0, own, -np.inf)
            return np.asarray(scores)

        return left_out
