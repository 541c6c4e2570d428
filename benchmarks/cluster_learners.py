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
        for _ in range(int(1_000 * self.thousands)):
            hashlib.sha256(BLOCK).digest()
        return super().train(parent, lesson, seed, tick)


class Waiting(CountingLearner):
    """Waits, as for a GPU: the time does not depend on what else the machine does."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def train(self, parent, lesson, seed, tick=silent):
        time.sleep(self.seconds)
        return super().train(parent, lesson, seed, tick)
