"""Ridge regression on the one-hot labels: the sums of z·zᵀ and of z·onehot(y)ᵀ."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.learners.additive.gcv import share_by_gcv
from cause.learners.additive.heads.base import Head, LeftOut, Rows, Solution, by_class
from cause.learners.additive.solve import SOLVERS, lapack
from cause.learners.additive.sums import Shapes, Sums


@dataclass(frozen=True)
class LinearSolution(Solution):
    """Scores are linear in the features; `weights` has one column a class."""

    def probabilities(self, z: Rows) -> NDArray[np.float64]:
        """Return the point of the simplex that is nearest to the scores, which estimate probabilities."""
        return nearest_probabilities(z @ self.arrays["weights"])


class Ridge(Head):
    """Minimises the squared error of the one-hot labels plus λ times the squared weights.

    λ is a share of the mean squared length of a sample's features: the trace of Σ z·zᵀ without the constant entry,
    which is not penalised, over the number of samples. So it weighs less the more samples there are. The share is
    `regularization`, or is chosen by generalised cross-validation; either follows from recipe and state alone.
    """

    def shapes(self) -> Shapes:
        """Return the triangle of Σ z·zᵀ and the table of Σ z·onehot(y)ᵀ."""
        size = self.setting.features + 1
        return {"gram": size, "cross": (size, self.setting.classes)}

    @property
    def largest_contribution(self) -> int:
        """The square of the largest feature."""
        return max(self.setting.largest**2, 1)

    def add(self, sums: Sums, z: Rows, y: NDArray[np.int64]) -> None:
        """Add z·zᵀ and z·onehot(y)ᵀ."""
        sums.parts["gram"].add(z)
        sums.parts["cross"] += by_class(z, y, self.setting.classes)

    def subtract(self, sums: Sums, z: Rows, y: NDArray[np.int64]) -> None:
        """Subtract what `add` adds."""
        sums.parts["gram"].subtract(z)
        sums.parts["cross"] -= by_class(z, y, self.setting.classes)

    def solve(self, sums: Sums) -> Solution:
        """Return the weights (Σ z·zᵀ + λ)⁻¹ Σ z·onehot(y)ᵀ."""
        cross = sums.parts["cross"].astype(np.float64)
        return LinearSolution({"weights": SOLVERS[self.setting.solve](self._penalised(sums), cross)})

    def _penalised(self, sums: Sums) -> NDArray[np.float64]:
        matrix: NDArray[np.float64] = sums.parts["gram"].matrix()
        features = self.setting.features
        diagonal, trace = np.arange(features), 0.0
        for value in matrix[diagonal, diagonal].tolist():  # one by one: a library may choose another order
            trace += value
        penalty = self._share(matrix, sums) * max(trace, 1.0) / max(sums.samples, 1)
        matrix[diagonal, diagonal] += penalty
        return matrix

    def _share(self, matrix: NDArray[np.float64], sums: Sums) -> float:
        given = self.setting.regularization
        if isinstance(given, str):
            return share_by_gcv(matrix, sums.parts["cross"].astype(np.float64), sums.samples)
        return given

    def leave_one_out(self, sums: Sums) -> LeftOut:
        """Return a function of samples: the scores of a ridge regression without each, with the same λ.

        With the leverage h = zᵀ(Σ z·zᵀ + λ)⁻¹z the score becomes (score - h·onehot(y)) / (1 - h).
        """
        inverse = lapack(self._penalised(sums), np.eye(self.setting.features + 1))
        weights = inverse @ sums.parts["cross"].astype(np.float64)

        def left_out(z: Rows, y: NDArray[np.int64]) -> NDArray[np.float64]:
            scores, leverage = z @ weights, np.einsum("ij,ij->i", z @ inverse, z)
            scores[np.arange(len(z)), y] -= leverage
            return np.asarray(scores / np.maximum(1.0 - leverage, 1e-12)[:, None])

        return left_out


def nearest_probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the point of the probability simplex nearest to each row; the order of the scores stays.

    >>> nearest_probabilities(np.array([[0.9, 0.3, -0.1], [0.2, 0.2, 0.2]])).round(3).tolist()
    [[0.8, 0.2, 0.0], [0.333, 0.333, 0.333]]
    """
    classes = scores.shape[1]
    descending = -np.sort(-scores, axis=1)
    excess = np.cumsum(descending, axis=1) - 1.0
    counts = np.arange(1, classes + 1)
    kept = (descending - excess / counts > 0).sum(axis=1)
    shift = excess[np.arange(len(scores)), kept - 1] / kept
    return np.asarray(np.maximum(scores - shift[:, None], 0.0))
