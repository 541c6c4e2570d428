"""The trial of a learner before a device is made: it must train, prune, store and predict, and keep no state."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from cause.common.hashing import digest
from cause.engine.arrays import ArrayUpload
from cause.engine.host_settings import own_error_modes
from cause.engine.learner import Learner
from cause.engine.presets import ADDITIVE
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.errors import CauseError, LearnerError
from cause.learners.user_state import UserStateSnapshot

SAMPLES = 4
"""The number of noise samples in a lesson of the trial."""


def shape_of(learner: Learner) -> tuple[int, ...] | None:
    """Return the shape of an input, as recipe or features give it; None for other learners, which are not tried."""
    if learner.recipe is not None:
        return tuple(learner.recipe.shape)
    if learner.law == ADDITIVE:
        return learner.input_shape
    return None if learner.features is None else (learner.features,)


def try_out(learner: Learner, shape: tuple[int, ...] | None = None) -> None:
    """Train, store, continue and predict with a few noise samples.

    Parameters
    ----------
    learner
        The learner, composed with its system. If the shape of its inputs is unknown, it is not tried.
    shape
        The shape of an input; by default the learner's.

    Raises
    ------
    LearnerError
        If the learner fails, if its answers are not probabilities of the classes, or if a training depends on an
        earlier one.

    Examples
    --------
    >>> from cause.learners.described import build
    >>> try_out(build({"kind": "sklearn", "estimator": "GaussianNB", "classes": 10, "features": 64}))
    """
    shape = shape or shape_of(learner)
    if shape is None:
        return
    trial = _Trial(learner.shortened().unrounded(), shape)
    try:
        with warnings.catch_warnings(), own_error_modes():
            warnings.simplefilter("ignore")  # of classes without a sample, for instance
            trial.run()
    except CauseError:
        raise
    except Exception as error:  # a user's network may raise anything
        line = (str(error).splitlines() or [""])[0]
        way_out = "; if it works with pruning=none in the system, pruning is the reason" if learner.prunes else ""
        fails = f"the learner fails on inputs of shape {shape}: {type(error).__name__}: {line}{way_out}"
        raise LearnerError(fails) from None


def digest_after_other_lessons(learner: Learner, shape: tuple[int, ...], earlier: Sequence[int]) -> bytes:
    """Train lesson 0 after some other lessons, predict, and train on; the result must not depend on the others.

    The others are trained again before the sub-model is used: code may keep what every training from scratch replaces,
    and use it when a stored sub-model predicts or is trained further.

    Parameters
    ----------
    learner
        The learner.
    shape
        The shape of an input.
    earlier
        The numbers of the other lessons.

    Returns
    -------
    bytes
        A digest of the sub-model, before it is rounded, of its answers and of the sub-model that follows it.
    """
    trial = _Trial(learner.shortened().unrounded(), shape)
    with warnings.catch_warnings(), own_error_modes():
        warnings.simplefilter("ignore")
        for number in earlier:
            trial.result(number)
        return trial.result(0, between=earlier)


class _Trial:
    """A trial with two lessons of noise."""

    def __init__(self, learner: Learner, shape: tuple[int, ...]) -> None:
        self._learner, self._classes = learner, learner.classes or 2
        draw = np.random.default_rng(0)
        self._x = [_noise(draw, (SAMPLES, *shape), learner.tokens) for _ in range(2)]

    def run(self) -> None:
        learner = self._learner
        code = learner.users_code
        before = None if code is None else UserStateSnapshot(*code())
        first = self._trained(0)
        if code is None and learner.recipe is not None:  # a model of this package, which keeps no state
            self._check_answers(learner.decode(first))
            learner.train(learner.decode(first), self._lesson(1), bytes(32))
            return
        if before is not None and (changed := before.changed()):
            after_first = before.now()
            before.restore()
            self._trained(1)
            after_second = before.now()
            for name in changed:
                if after_first[name] != after_second[name]:
                    raise LearnerError(
                        f"the network's code keeps what it learned from outside the network: {name} depends on the "
                        "data of a training, so that later sub-models would depend on it too; keep it in a buffer"
                    )
        else:
            self._trained(1)
        self._answers(learner.decode(first), 1)
        if self._trained(0) != first:
            raise LearnerError(
                "the same samples and seed gave other weights after another training: the network's code keeps "
                "something between trainings (a class attribute, a global, a generator of its own, a hook, the clock); "
                "keep it in the network, and draw from the global generators, which are seeded"
            )
        state = learner.decode(first)
        learner.train(learner.decode(first), self._lesson(1), bytes(32))
        answers = self._check_answers(state)
        self._answers(state, 1)
        if not np.array_equal(self._answers(state, 0), answers):
            raise LearnerError(
                "the same sub-model answers the same inputs otherwise after other inputs: the network's code keeps "
                "something between predictions; keep it in the network, and draw from the global generators"
            )

    def result(self, number: int, between: Sequence[int] = ()) -> bytes:
        """Return a digest of a lesson's sub-model, and of its answers and the next sub-model after other lessons."""
        blob = self._trained(number)
        for other in between:
            self._trained(other)
        answers = self._answers(self._learner.decode(blob), number).tobytes()
        later = self._learner.train(self._learner.decode(blob), self._lesson(1), bytes(32))
        return digest(blob, answers, self._learner.encode(later))

    def _lesson(self, number: int) -> Lesson:
        labels = (np.arange(SAMPLES) + number) % self._classes
        self._learner.check(ArrayUpload("trial", 1, self._x[number], labels))
        upload = ArrayUpload("trial", 1, self._learner.recorded(self._x[number]), labels)
        return Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), SAMPLES)

    def _trained(self, number: int) -> bytes:
        return self._learner.encode(self._learner.train(None, self._lesson(number), bytes([number]) * 32))

    def _answers(self, state: Any, number: int) -> Any:
        return np.asarray(self._learner.predict(state, self._x[number]))

    def _check_answers(self, state: Any) -> Any:
        answers = self._answers(state, 0)
        if self._learner.classes is not None and answers.shape != (SAMPLES, self._classes):
            raise LearnerError(
                f"the network answers {SAMPLES} inputs with shape {answers.shape}, not {(SAMPLES, self._classes)}: its "
                f"last layer must have one output for each of the {self._classes} classes"
            )
        if not np.isfinite(answers).all():
            raise LearnerError("the learner answers with numbers that are not finite (NaN)")
        return answers


def _noise(draw: np.random.Generator, shape: tuple[int, ...], tokens: int | None) -> Any:
    """Return random floats from 0 to 1, or random whole numbers below `tokens`."""
    if tokens is not None:
        return draw.integers(tokens, size=shape)
    return draw.random((shape[0], math.prod(shape[1:]))).astype(np.float32).reshape(shape)
