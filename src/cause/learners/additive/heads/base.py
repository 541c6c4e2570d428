"""What a head is: a contribution of each sample, whole numbers that can be added, and a solution of the sums."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.errors import LearnerError
from cause.learners.additive.sums import Shapes, Sums

Rows = NDArray[np.float64]
"""Features as whole numbers in float64, one row a sample; the last column is the constant 1."""
LeftOut = Callable[[Rows, NDArray[np.int64]], NDArray[np.float64]]
"""Takes features and labels, returns scores: one row a sample, one column a class."""


@dataclass(frozen=True)
class Setting:
    """The arguments of a head."""

    features: int
    """The number of features, without the constant entry."""
    classes: int
    largest: int
    """The largest value of a feature; the smallest is 0."""
    regularization: float | str
    """λ of the ridge head, as a share of the mean squared length of a sample's features; "gcv" chooses it."""
    solve: str
    """The name of the solver."""


@dataclass(frozen=True)
class Solution(ABC):
    """A classifier that was solved from sums."""

    arrays: Mapping[str, NDArray[np.float64]]
    """Everything that it consists of."""

    @abstractmethod
    def probabilities(self, z: Rows) -> NDArray[np.float64]:
        """Return one row of probabilities a sample."""


class Head(ABC):
    """Adds samples to sums, and solves the sums.

    A head of one's own is a class with `shapes`, `largest_contribution`, `contribution` and `solve`, given as
    `AdditiveLearner(head=…)`. The contribution of a sample follows from this sample and the setting alone, and consists
    of whole numbers.

    Parameters
    ----------
    setting
        What the recipe says.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @abstractmethod
    def shapes(self) -> Shapes:
        """Return the parts of the sums: the shape of a table, or the number of rows of a triangle, by name."""

    @property
    @abstractmethod
    def largest_contribution(self) -> int:
        """The largest number that one sample adds to a sum: it limits the number of samples."""

    def contribution(self, z: Rows, y: NDArray[np.int64]) -> Mapping[str, NDArray[np.int64]]:
        """Return what samples contribute to each part that is a table: the sum of their contributions, in int64.

        A head with other parts has methods `add` and `subtract` instead.
        """
        raise NotImplementedError(f"{type(self).__name__} has neither a contribution nor add and subtract")

    def add(self, sums: Sums, z: Rows, y: NDArray[np.int64]) -> None:
        """Add samples to the parts of the sums."""
        for name, numbers in self._checked(z, y).items():
            sums.parts[name] += numbers

    def subtract(self, sums: Sums, z: Rows, y: NDArray[np.int64]) -> None:
        """Subtract what `add` adds."""
        for name, numbers in self._checked(z, y).items():
            sums.parts[name] -= numbers

    def _checked(self, z: Rows, y: NDArray[np.int64]) -> Mapping[str, NDArray[np.int64]]:
        """Return the contribution, after a check that it is of the parts and of whole numbers within the limit.

        Raises
        ------
        LearnerError
            If it is not: such sums could not be subtracted exactly.
        """
        made, who = self.contribution(z, y), f"the head {type(self).__name__}"
        shapes = self.shapes()
        if {name: numbers.shape for name, numbers in made.items()} != dict(shapes):
            raise LearnerError(f"{who} contributes to other parts than its shapes {dict(shapes)}")
        for name, numbers in made.items():
            if numbers.dtype != np.int64:
                raise LearnerError(f"{who} contributes {numbers.dtype} to {name!r}: sums are exact in int64 only")
            largest, most = int(np.abs(numbers).max(initial=0)), self.largest_contribution * len(y)
            if largest > most:
                raise LearnerError(f"{who} contributes {largest:,} to {name!r}, but names {most:,} as the largest")
        return made

    @abstractmethod
    def solve(self, sums: Sums) -> Solution:
        """Return the classifier; there is at least one sample in the sums."""

    def leave_one_out(self, sums: Sums) -> LeftOut:
        """Return a function of samples that are in the sums: their scores, each as if it had not been.

        Here each is subtracted from a copy of the sums, which is solved; most heads know a faster way.
        """

        def left_out(z: Rows, y: NDArray[np.int64]) -> NDArray[np.float64]:
            scores = np.zeros((len(z), self.setting.classes))
            for row in range(len(z)) if sums.samples > 1 else ():
                one, others = slice(row, row + 1), sums.copy()
                self.subtract(others, z[one], y[one])
                others.samples -= 1
                scores[row] = self.solve(others).probabilities(z[one])[0]
            return scores

        return left_out


def one_hot(y: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Return one row a label, with 1 in its column and 0 in the others."""
    table = np.zeros((len(y), classes))
    table[np.arange(len(y)), y] = 1.0
    return table


def by_class(z: Rows, y: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return the sum of the rows of each class: one column a class."""
    return np.asarray(z.T @ one_hot(y, classes)).astype(np.int64)


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities of logarithms of likelihoods."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
