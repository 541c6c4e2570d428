"""What a backbone is: a frozen, public function of one input."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any

from numpy.typing import NDArray

REGULARIZATION = 0.1
"""The λ of a ridge head for features of which nothing is known."""


class Backbone(ABC):
    """Makes features of inputs.

    The features of an input have the same bits whatever else is in its batch, so a backbone that computes in floats
    uses batches of one fixed shape.
    """

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether inputs of this shape are taken: here those of `input_shape`, and rows of as many numbers."""
        return shape in (self.input_shape, (prod(self.input_shape),))

    @property
    @abstractmethod
    def features(self) -> int:
        """The number of features of one input."""

    @property
    def scale(self) -> tuple[float, float] | None:
        """The scale of the features, if it is known; else the recipe must name one."""
        return None

    @property
    def regularization(self) -> float:
        """The λ of a ridge head that suits its features, as the learner's argument of that name: a constant."""
        return REGULARIZATION

    @property
    def typical(self) -> tuple[float, float] | None:
        """A typical feature and its deviation, constants by which random units are centred; None if not known."""
        return None

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Everything that decides the features, as plain data: the runtime and a digest of the weights too."""

    def described(self) -> dict[str, Any] | None:
        """Return the arguments with which `backbone_of` finds it again; None if it has to be passed as an object."""
        return {}

    @abstractmethod
    def compute(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the features of inputs: one row an input, one column a feature."""


@dataclass(frozen=True)
class Facts:
    """What a recipe must know of a backbone besides its identity."""

    input_shape: tuple[int, ...]
    features: int
    scale: tuple[float, float] | None = None
    regularization: float = REGULARIZATION
    typical: tuple[float, float] | None = None


class BackboneWithFacts(Backbone):
    """A backbone whose `facts` are found when it is made."""

    facts: Facts

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.facts.input_shape

    @property
    def features(self) -> int:
        """The number of values that it returns for an input."""
        return self.facts.features

    @property
    def scale(self) -> tuple[float, float] | None:
        """The range of the features, if it is known."""
        return self.facts.scale

    @property
    def regularization(self) -> float:
        """The λ of a ridge head that suits its features."""
        return self.facts.regularization

    @property
    def typical(self) -> tuple[float, float] | None:
        """A typical feature and its deviation, if they are known."""
        return self.facts.typical
