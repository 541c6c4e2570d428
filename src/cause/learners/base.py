"""The seam of all learners."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cause.progress import Tick, silent
from cause.samples import Lesson


class Learner(Protocol):
    """Trains sub-models. Training is a pure function of what `train` is given: the law.

    A state is whatever the learner likes; the engine only hands it on, encoded. Training always starts from a
    decoded state, never from a live one.
    """

    @property
    def recipe_digest(self) -> bytes:
        """Digest of everything that decides a training's outcome besides parent, samples and seed."""

    @property
    def environment(self) -> str:
        """Fingerprint of the machine and software on which bits are the same."""

    @property
    def sub_model_bytes(self) -> int:
        """Size of one sub-model, uncompressed, at the target width."""

    def train(self, parent: Any | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> Any:
        """The sub-model that follows `parent` (or scratch) on these samples; `tick` hears of each epoch done."""

    def predict(self, state: Any, x: Any) -> NDArray[np.floating]:
        """Probabilities, one row a sample and one column a class."""

    def encode(self, state: Any) -> bytes:
        """The bytes to store."""

    def decode(self, blob: bytes) -> Any:
        """The state again."""

    def stored_bytes(self, blob: bytes) -> int:
        """What an encoded sub-model counts against the budget."""
