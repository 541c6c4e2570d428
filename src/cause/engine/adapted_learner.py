"""AdaptedLearner makes a `Learner` of a user's own object that has the methods of `LearnerLike`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.learner import Learner, LearnerLike, Predictor, UsersCode
from cause.engine.presets import System
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Upload


def as_learner(learner: LearnerLike) -> Learner:
    """Return a learner as it is, and any other object with a learner's methods as an `AdaptedLearner`.

    >>> from cause.learners import CountingLearner
    >>> counting = CountingLearner()
    >>> as_learner(counting) is counting
    True
    """
    return learner if isinstance(learner, Learner) else AdaptedLearner(learner)


class AdaptedLearner(Learner):
    """A learner that passes calls on to an object of the user's own.

    Methods and properties that the object does not have are those of `Learner`. Two are never the object's: the `law`
    is `REPLAYED`, and inputs are kept as they are (`recorded`). A learner that sums is a subclass of `SummingLearner`.

    Parameters
    ----------
    wrapped
        An object with the methods and attributes of `LearnerLike`, and perhaps more of `Learner`.
    """

    def __init__(self, wrapped: LearnerLike) -> None:
        self.wrapped = wrapped

    def _optional(self, name: str, default: Any) -> Any:
        return getattr(self.wrapped, name, default)

    @property
    def recipe_digest(self) -> bytes:
        return self.wrapped.recipe_digest

    @property
    def environment(self) -> str:
        return self.wrapped.environment

    @property
    def sub_model_bytes(self) -> int:
        return self.wrapped.sub_model_bytes

    @property
    def classes(self) -> int | None:
        return self.wrapped.classes

    def composed(self, system: System) -> Learner:
        composed = self.wrapped.composed(system)
        return self if composed is self.wrapped else as_learner(composed)

    def check(self, upload: Upload) -> None:
        self.wrapped.check(upload)

    def train(self, parent: Any | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> Any:
        return self.wrapped.train(parent, lesson, seed, tick)

    def predict(self, state: Any, x: Any) -> NDArray[np.floating]:
        return self.wrapped.predict(state, x)

    def encode(self, state: Any) -> bytes:
        return self.wrapped.encode(state)

    def decode(self, blob: bytes) -> Any:
        return self.wrapped.decode(blob)

    def stored_bytes(self, blob: bytes) -> int:
        return self.wrapped.stored_bytes(blob)

    def predictor(self, state: Any) -> Predictor:
        predictor: Predictor = self._optional("predictor", super().predictor)(state)
        return predictor

    @property
    def type_name(self) -> str:
        return type(self.wrapped).__name__

    @property
    def features(self) -> int | None:
        features: int | None = self._optional("features", None)
        return features

    @property
    def recipe(self) -> Any:
        return self._optional("recipe", None)

    @property
    def prunes(self) -> bool:
        return bool(self._optional("prunes", False))

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        shape: tuple[int, ...] | None = self._optional("input_shape", None)
        return shape

    @property
    def input_function(self) -> str | None:
        function: str | None = self._optional("input_function", None)
        return function

    @property
    def device_type(self) -> str:
        """The object's own `device_type`, or the type of its attribute `device` if that is a device of torch."""
        return str(self._optional("device_type", getattr(self._optional("device", None), "type", "cpu")))

    @property
    def notes(self) -> list[str]:
        return list(self._optional("notes", ()))

    def described(self) -> dict[str, Any] | None:
        description: dict[str, Any] | None = self._optional("described", super().described)()
        return description

    def as_written(self, description: Mapping[str, Any]) -> Learner:
        written = self._optional("as_written", super().as_written)(description)
        return self if written is self.wrapped else as_learner(written)

    def exported(self, state: Any) -> Mapping[str, Any]:
        arrays: Mapping[str, Any] = self._optional("exported", super().exported)(state)
        return arrays

    @property
    def has_network(self) -> bool:
        return bool(self._optional("has_network", hasattr(self.wrapped, "network")))

    def network(self, state: Any) -> Any:
        return self._optional("network", super().network)(state)

    def shortened(self) -> Learner:
        return as_learner(self._optional("shortened", super().shortened)())

    def unrounded(self) -> Learner:
        return as_learner(self._optional("unrounded", super().unrounded)())

    @property
    def tokens(self) -> int | None:
        tokens: int | None = self._optional("tokens", None)
        return tokens

    @property
    def users_code(self) -> UsersCode | None:
        code: UsersCode | None = self._optional("users_code", None)
        return code
