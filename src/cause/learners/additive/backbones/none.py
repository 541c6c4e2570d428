"""No backbone: the inputs are the features."""

from typing import Any

from numpy.typing import NDArray

from cause.learners.additive.backbones.base import Backbone


class NoBackbone(Backbone):
    """Flattens inputs.

    Parameters
    ----------
    shape
        The shape of one input.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self._shape

    @property
    def features(self) -> int:
        """The number of values in an input."""
        count = 1
        for side in self._shape:
            count *= side
        return count

    @property
    def identity(self) -> dict[str, Any]:
        """The shape."""
        return {"backbone": "none", "shape": list(self._shape)}

    def compute(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs, one row each."""
        return x.reshape(len(x), -1)
