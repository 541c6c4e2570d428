"""The learner of a simulation: it counts instead of learning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.hashing import digest
from cause.engine.learner import Learner
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Upload
from cause.errors import InputError, LearnerError


class CountingLearner(Learner):
    """Its state is the number of samples a sub-model has learned from; its size is what you say.

    >>> from cause.engine.samples import Part, Piece, SegmentKey, TraceUpload
    >>> lesson = Lesson(SegmentKey(0, 1), [Piece(TraceUpload("u7", 1, (Part(31),)), range(5, 31))], 26)
    >>> CountingLearner(sub_model_bytes=30 * 2**20).train(100, lesson, seed=b"")
    126
    """

    recipe_digest = digest("counting")
    environment = "counting"

    def __init__(self, sub_model_bytes: int = 1) -> None:
        if sub_model_bytes < 1:
            raise InputError(f"a sub-model must have at least one byte, not {sub_model_bytes}")
        self._sub_model_bytes = sub_model_bytes

    @property
    def sub_model_bytes(self) -> int:
        return self._sub_model_bytes

    def check(self, upload: Upload) -> None:
        pass

    def train(self, parent: int | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> int:
        return (parent or 0) + lesson.count

    def predict(self, state: int, x: Any) -> NDArray[np.floating]:
        raise LearnerError("the counting learner only counts: it cannot predict")

    def encode(self, state: int) -> bytes:
        return b"%d" % state

    def decode(self, blob: bytes) -> int:
        return int(blob)

    def stored_bytes(self, blob: bytes) -> int:
        return self.sub_model_bytes
