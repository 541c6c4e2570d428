"""A trial: whether a learner can learn, be pruned, stored and asked, before a device is made for it."""

import math
import warnings

import numpy as np

from cause.arrays import ArrayUpload
from cause.errors import CauseError, LearnerError
from cause.learners.base import Learner
from cause.samples import Lesson, Piece, SegmentKey

SAMPLES = 4


def try_out(learner: Learner, shape: tuple[int, ...]) -> None:
    """Train a first segment of a few noise samples, with all its pruning, and read it back; refuse what fails.

    >>> from cause.learners.described import build
    >>> try_out(build({"kind": "sklearn", "estimator": "GaussianNB", "classes": 10, "features": 64}), (64,))
    """
    draw = np.random.default_rng(0)
    x = draw.random((SAMPLES, math.prod(shape))).astype(np.float32)
    upload = ArrayUpload("trial", 1, x.reshape(SAMPLES, *shape), np.arange(SAMPLES) % (learner.classes or 2))
    lesson = Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), SAMPLES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes without a sample, for instance
            state = learner.decode(learner.encode(learner.train(None, lesson, bytes(32))))
            learner.train(state, lesson, bytes(32))
            learner.predict(state, x.reshape(SAMPLES, *shape))
    except CauseError:
        raise
    except Exception as error:  # whatever a user's network raises
        first = (str(error).splitlines() or [""])[0]
        raise LearnerError(f"the learner fails on inputs of shape {shape}: {type(error).__name__}: {first}") from None
