"""The learner of a simulation: it counts instead of learning."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import InputError, LearnerError
from cause.keyed import digest
from cause.samples import Piece


class CountingLearner:
    """Its state is the number of samples a sub-model has learned from; its size is what you say.

    >>> from cause.samples import Part, TraceUpload
    >>> learner = CountingLearner(sub_model_bytes=30 * 2**20)
    >>> learner.train(100, [Piece(TraceUpload("u7", 1, (Part(31),)), range(5, 31))], [], seed=b"")
    126
    """

    recipe_digest = digest("counting")
    environment = "counting"

    def __init__(self, sub_model_bytes: int = 1) -> None:
        if sub_model_bytes < 1:
            raise InputError(f"a sub-model must have at least one byte, not {sub_model_bytes}")
        self.sub_model_bytes = sub_model_bytes

    def train(self, parent: int | None, samples: Sequence[Piece], rehearsed: Sequence[Piece], seed: bytes) -> int:
        return (parent or 0) + sum(len(piece.positions) for piece in samples)

    def predict(self, state: int, x: Any) -> NDArray[np.floating]:
        raise LearnerError("the counting learner only counts: it cannot predict")

    def encode(self, state: int) -> bytes:
        return b"%d" % state

    def decode(self, blob: bytes) -> int:
        return int(blob)

    def stored_bytes(self, blob: bytes) -> int:
        return self.sub_model_bytes
