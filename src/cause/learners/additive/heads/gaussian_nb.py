"""Gaussian naive Bayes: the sums of the features and of their squares, for each class."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.learners.additive.heads.base import Head, LeftOut, Rows, Solution, by_class, softmax
from cause.learners.additive.sums import Shapes, Sums

SMOOTHING = 1e-2
"""Added to each variance, as a share of that of a feature that takes all values equally often: a constant."""


@dataclass(frozen=True)
class Gaussians(Solution):
    """A normal distribution of each feature in each class."""

    def probabilities(self, z: Rows) -> NDArray[np.float64]:
        """Return the shares of the likelihoods, weighted by the classes' numbers of samples."""
        return softmax(self.scores(z))

    def scores(self, z: Rows) -> NDArray[np.float64]:
        """Return logarithms of the likelihoods; a class without samples has -inf."""
        mean, variance, x = self.arrays["mean"], self.arrays["variance"], z[:, :-1]
        constant = -0.5 * (np.log(variance) + mean**2 / variance).sum(axis=0) + self.arrays["prior"]
        return np.asarray(x @ (mean / variance) - 0.5 * (x**2 @ (1 / variance)) + constant)


class GaussianNB(Head):
    """Takes the features of a class as independent and normally distributed."""

    def shapes(self) -> Shapes:
        """Return the sums of each class (the last row counts its samples), and those of the squares."""
        features, classes = self.setting.features, self.setting.classes
        return {"sums": (features + 1, classes), "squares": (features, classes)}

    @property
    def largest_contribution(self) -> int:
        """The square of the largest feature."""
        return max(self.setting.largest**2, 1)

    def contribution(self, z: Rows, y: NDArray[np.int64]) -> Mapping[str, NDArray[np.int64]]:
        """Return features and squares in the column of the class."""
        classes = self.setting.classes
        return {"sums": by_class(z, y, classes), "squares": by_class(z[:, :-1] ** 2, y, classes)}

    def solve(self, sums: Sums) -> Solution:
        """Return means and variances."""
        table, squares = sums.parts["sums"].astype(np.float64), sums.parts["squares"].astype(np.float64)
        return Gaussians(self._fitted(table, squares))

    def _fitted(self, table: NDArray[np.float64], squares: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        counts = np.maximum(table[-1], 1)
        mean = table[:-1] / counts
        floor = SMOOTHING * (self.setting.largest + 1) ** 2 / 12
        variance = np.maximum(squares / counts - mean**2, 0.0) + floor
        with np.errstate(divide="ignore"):
            prior = np.log(table[-1] / max(table[-1].sum(), 1))
        return {"mean": mean, "variance": variance, "prior": prior}

    def leave_one_out(self, sums: Sums) -> LeftOut:
        """Return a function of samples: scores without each, which is subtracted from its class."""
        table, squares = sums.parts["sums"].astype(np.float64), sums.parts["squares"].astype(np.float64)
        solution = Gaussians(self._fitted(table, squares))

        def left_out(z: Rows, y: NDArray[np.int64]) -> NDArray[np.float64]:
            scores = solution.scores(z)
            for row, label in enumerate(y.tolist()):
                own = table[:, [label]] - z[row][:, None]
                fitted = self._fitted(own, squares[:, [label]] - (z[row, :-1] ** 2)[:, None])
                with np.errstate(divide="ignore"):
                    fitted["prior"] = np.log(own[-1] / max(table[-1].sum(), 1))
                scores[row, label] = Gaussians(fitted).scores(z[row][None])[0, 0]
            return scores

        return left_out
