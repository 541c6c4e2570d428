"""SummingLearner: the base class of learners that obey the additive law, whose state is a sum over the samples."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.learner import Learner, Predictor
from cause.engine.presets import ADDITIVE
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Piece


class SummingLearner(Learner):
    """A learner whose state is the sum of a function of one sample over all retained samples.

    The function yields integers, so the sum has no order and no history: to forget a sample is to subtract it, and the
    result is bit for bit the state of a device that never had it. The engine keeps one state and changes it in place.
    """

    @property
    def law(self) -> str:
        """`ADDITIVE`."""
        return ADDITIVE

    @property
    @abstractmethod
    def most_samples(self) -> int:
        """The number of samples up to which no sum can overflow."""

    @property
    @abstractmethod
    def recorded_bytes(self) -> int:
        """The size of one sample as it is recorded."""

    def inputs_of(self, recorded: NDArray[Any]) -> NDArray[Any] | None:
        """Return the inputs that recorded samples hold, with one dtype; None if inputs are not kept."""
        return None

    @abstractmethod
    def empty(self) -> Any:
        """Return the state of no samples."""

    @abstractmethod
    def add(self, state: Any, piece: Piece) -> None:
        """Add recorded samples to a state, in place."""

    @abstractmethod
    def subtract(self, state: Any, piece: Piece) -> None:
        """Subtract recorded samples from a state, in place."""

    def copied(self, state: Any) -> Any:
        """Return a copy of a state, which later additions and subtractions do not change."""
        return self.decode(self.encode(state))

    @abstractmethod
    def predictor(self, state: Any) -> Predictor:
        """Solve a state, and return a function that predicts with the solution."""

    def train(self, parent: Any | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> Any:
        """Return the parent, to which the samples of a lesson are added; the seed decides nothing.

        The parent is changed in place.
        """
        state = self.empty() if parent is None else parent
        for piece in lesson.pieces:
            self.add(state, piece)
        tick(1, 1)
        return state

    def predict(self, state: Any, x: Any) -> NDArray[np.floating]:
        """Return probabilities for inputs: one row a sample, one column a class."""
        return self.predictor(state)(x)
