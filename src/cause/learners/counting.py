"""CountingLearner, for simulations: it counts samples instead of learning from them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.hashing import digest
from cause.engine.learner import Learner
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Upload
from cause.errors import InputError, LearnerError


class CountingLearner(Learner):
    """A learner whose state is the number of samples that a sub-model was trained on.

    Parameters
    ----------
    sub_model_bytes
        The size that each sub-model is counted with.

    Examples
    --------
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
        """Size of a sub-model, as it was given."""
        return self._sub_model_bytes

    def check(self, upload: Upload) -> None:
        """Accept every upload."""

    def train(self, parent: int | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> int:
        """Return the parent's count plus the number of the lesson's new samples."""
        return (parent or 0) + lesson.count

    def predict(self, state: int, x: Any) -> NDArray[np.floating]:
        """Raise a `LearnerError`: a count predicts nothing."""
        raise LearnerError("the counting learner only counts: it cannot predict")

    def encode(self, state: int) -> bytes:
        """Return the count as decimal digits."""
        return b"%d" % state

    def decode(self, blob: bytes) -> int:
        """Return the count of decimal digits."""
        return int(blob)

    def stored_bytes(self, blob: bytes) -> int:
        """Return the size that was given, not that of the digits."""
        return self.sub_model_bytes
