"""DeferredLearner makes a home's learner only when something is trained, predicted or checked with it.

To forget, a home needs only the list of sub-models and the size of one, which are in its ledger. torch and scikit-learn
take seconds to import, so a command that retrains nothing does not import them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.learner import Learner, Predictor, UsersCode
from cause.engine.presets import System
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Upload


class DeferredLearner(Learner):
    """Passes calls on to a learner that is made at the first call.

    Recipe digest, size and number of classes come from the home; they do not need the learner. Nor does `law`, which is
    `REPLAYED`, or `as_written`: what `load` makes has the settings of the home already.

    Parameters
    ----------
    recipe_digest, sub_model_bytes
        As the home recorded them.
    load
        Makes the learner, composed with a system if one is passed.
    classes
        As the home's configuration has them.

    Examples
    --------
    >>> from cause.learners import CountingLearner
    >>> learner = DeferredLearner(bytes(32), 1_000, lambda system: CountingLearner())
    >>> learner.sub_model_bytes, learner.is_loaded, learner.environment == "", learner.is_loaded
    (1000, False, False, True)
    """

    def __init__(
        self,
        recipe_digest: bytes,
        sub_model_bytes: int,
        load: Callable[[System | None], Learner],
        *,
        classes: int | None = None,
    ) -> None:
        self._recipe_digest, self._sub_model_bytes, self._classes = recipe_digest, sub_model_bytes, classes
        self._load = load
        self._system: System | None = None
        self._learner: Learner | None = None
        self.when_loaded: Callable[[Learner], None] | None = None
        """Called with the learner after it was made and before it is used: the home checks its recipe."""

    @property
    def is_loaded(self) -> bool:
        """Whether the learner was made."""
        return self._learner is not None

    def loaded(self) -> Learner:
        """Return the learner, and make it if this was not done before; raise whatever making it raises."""
        if self._learner is None:
            learner = self._load(self._system)
            if self.when_loaded is not None:
                self.when_loaded(learner)
            self._learner = learner
        return self._learner

    @property
    def recipe_digest(self) -> bytes:
        return self._recipe_digest

    @property
    def sub_model_bytes(self) -> int:
        return self._sub_model_bytes

    @property
    def classes(self) -> int | None:
        return self._classes

    @property
    def environment(self) -> str:
        return self.loaded().environment

    def composed(self, system: System) -> "DeferredLearner":
        composed = DeferredLearner(self.recipe_digest, self.sub_model_bytes, self._load, classes=self.classes)
        composed._system = system
        return composed

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

    def predictor(self, state: Any) -> Predictor:
        return self.loaded().predictor(state)

    def recorded(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.loaded().recorded(x)

    @property
    def type_name(self) -> str:
        return self.loaded().type_name

    @property
    def features(self) -> int | None:
        return self.loaded().features

    @property
    def recipe(self) -> Any:
        return self.loaded().recipe

    @property
    def prunes(self) -> bool:
        return self.loaded().prunes

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        return self.loaded().input_shape

    @property
    def input_function(self) -> str | None:
        return self.loaded().input_function

    @property
    def device_type(self) -> str:
        return self.loaded().device_type

    @property
    def notes(self) -> list[str]:
        return self.loaded().notes

    def described(self) -> dict[str, Any] | None:
        return self.loaded().described()

    def exported(self, state: Any) -> Mapping[str, Any]:
        return self.loaded().exported(state)

    @property
    def has_network(self) -> bool:
        return self.loaded().has_network

    def network(self, state: Any) -> Any:
        return self.loaded().network(state)

    def shortened(self) -> Learner:
        return self.loaded().shortened()

    def unrounded(self) -> Learner:
        return self.loaded().unrounded()

    @property
    def tokens(self) -> int | None:
        return self.loaded().tokens

    @property
    def users_code(self) -> UsersCode | None:
        return self.loaded().users_code

    def __reduce__(self) -> tuple[Any, ...]:
        return _identity, (self.loaded(),)  # a worker process gets the learner itself


def _identity(learner: Learner) -> Learner:
    return learner
