"""What a head is: a contribution of each sample, whole numbers that can be added, and a solution of the sums."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    A head of one's own is one file with these methods. The contribution of a sample follows from this sample and the
    setting alone, and consists of whole numbers.

    Parameters
    ----------
    setting
        What the recipe says.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @abstractmethod
    def shapes(self) -> Shapes:
        """Return the parts of the sums."""

    @property
    @abstractmethod
    def largest_contribution(self) -> int:
        """The largest number that one sample adds to a sum: it limits the number of samples."""

    @abstractmethod
    def add(self, sums: Sums, z: Rows, y: NDArray[np.int64]) -> None:
        """Add samples to the parts of the sums."""

    @abstractmethod
    def subtract(self, sums: Sums, z: Rows, y: NDArray[np.int64]) -> None:
        """Subtract samples from the parts of the sums."""

    @abstractmethod
    def solve(self, sums: Sums) -> Solution:
        """Return the classifier; there is at least one sample in the sums."""

    @abstractmethod
    def leave_one_out(self, sums: Sums) -> LeftOut:
        """Return a function of samples that are in the sums: their scores, each as if it had not been."""


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
