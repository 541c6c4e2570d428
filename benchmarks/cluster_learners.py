"""Learners whose training takes a given time. Workers on Ray nodes import this file."""

import hashlib
import time

from cause.engine.progress import silent
from cause.learners import CountingLearner

BLOCK = b"\0" * (1 << 16)


class Computing(CountingLearner):
    """Computes digests: so many thousand of 64 KB. It holds its samples as any learner does."""

    def __init__(self, thousands: float) -> None:
        super().__init__()
        self.thousands = thousands

    def train(self, parent, lesson, seed, tick=silent):
        self._compute()
        return super().train(parent, lesson, seed, tick)

    def _compute(self) -> None:
        for _ in range(int(1_000 * self.thousands)):
            hashlib.sha256(BLOCK).digest()

    @classmethod
    def for_seconds(cls, seconds: float) -> "Computing":
        """Return a learner whose training takes about so long on this machine when nothing else runs."""
        trial = cls(2)
        start = time.perf_counter()
        trial._compute()
        return cls(trial.thousands * seconds / (time.perf_counter() - start))
