"""A home's learner that is made only when something is trained, predicted or checked with it.

To forget, a home needs to know which sub-models there are and how large one is, which its ledger remembers. torch and
scikit-learn take seconds to import, so a command that retrains nothing before its answer does without them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.learner import Learner
from cause.engine.presets import System
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Upload


class DeferredLearner:
    """Stands for a learner until it is needed; then it is that learner.

    Parameters
    ----------
    recipe_digest, sub_model_bytes
        As the home recorded them.
    load
        Makes the learner, as a system composes it.

    >>> from cause.learners import CountingLearner
    >>> learner = DeferredLearner(bytes(32), 1_000, lambda system: CountingLearner())
    >>> learner.sub_model_bytes, learner.is_loaded, learner.environment == "", learner.is_loaded
    (1000, False, False, True)
    """

    def __init__(self, recipe_digest: bytes, sub_model_bytes: int, load: Callable[[System | None], Learner]) -> None:
        self.recipe_digest, self.sub_model_bytes = recipe_digest, sub_model_bytes
        self.classes: int | None = None
        self._load = load
        self._system: System | None = None
        self._learner: Learner | None = None
        self.when_loaded: Callable[[Learner], None] | None = None
        """Called with the learner when it was made, before it is used: the home checks its recipe."""

    @property
    def is_loaded(self) -> bool:
        """Whether it was needed."""
        return self._learner is not None

    def loaded(self) -> Learner:
        """The learner itself."""
        if self._learner is None:
            made = self._load(self._system)
            if self.when_loaded is not None:
                self.when_loaded(made)
            self._learner = made
        return self._learner

    @property
    def environment(self) -> str:
        return self.loaded().environment

    def composed(self, system: System) -> "DeferredLearner":
        made = DeferredLearner(self.recipe_digest, self.sub_model_bytes, self._load)
        made.classes, made._system = self.classes, system
        return made

    def check(self, upload: Upload) -> None:
        self.loaded().check(upload)

    def train(self, parent: Any | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> Any:
        return self.loaded().train(parent, lesson, seed, tick)

    def predict(self, state: Any, x: Any) -> NDArray[np.floating]:
        return self.loaded().predict(state, x)

    def encode(self, state: Any) -> bytes:
        return self.loaded().encode(state)

    def decode(self, blob: bytes) -> Any:
        return self.loaded().decode(blob)

    def stored_bytes(self, blob: bytes) -> int:
        return self.loaded().stored_bytes(blob)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.loaded(), name)  # what only some learners have: recipe, predictor, network …

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self.loaded(),)  # a worker gets the learner


def _itself(learner: Learner) -> Learner:
    return learner
