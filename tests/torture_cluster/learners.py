"""Learners of the torture. Workers import this file."""

import ctypes
import gc
from pathlib import Path

import numpy as np

from cause.engine.progress import silent
from cause.executors.cluster import actor, lease
from tests.torture.slow_learner import SlowLearner
from tests.waiting import pass_time

CLASSES, FEATURES = 3, 64


class Slow(SlowLearner):
    """A learner that is slow enough for something to happen meanwhile."""

    def __init__(self, seconds: float = 0.4) -> None:
        super().__init__(seconds, CLASSES, FEATURES)


KEPT: list[object] = []


class Stubborn(Slow):
    """A fault to be detected: its workers keep the samples, and end neither on command nor with their lease."""

    def train(self, parent, lesson, seed, tick=silent):
        KEPT.append([piece.upload.arrays(piece.positions) for piece in lesson.pieces])
        actor.die = lambda: pass_time(10_000)
        gc.unfreeze()  # else the lease is not among the objects
        for each in gc.get_objects():
            if isinstance(each, lease.Lease):
                each._libc.timer_settime(each._timer, 0, ctypes.byref(lease._Setting()), None)
                each.renew = lambda asked_at: None
        return super().train(parent, lesson, seed, tick)


class Printing(Slow):
    """A fault to be detected: it writes samples into a file of Ray's folder."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def train(self, parent, lesson, seed, tick=silent):
        for number, piece in enumerate(lesson.pieces):
            rows = piece.upload.arrays(piece.positions)[0]
            Path(self.folder, f"{seed}-{number}.out").write_bytes(rows.tobytes())
        return super().train(parent, lesson, seed, tick)


class Putting(Slow):
    """A fault to be detected: it puts samples into Ray's object store."""

    def train(self, parent, lesson, seed, tick=silent):
        import ray

        for piece in lesson.pieces:
            rows = piece.upload.arrays(piece.positions)[0]
            KEPT.append(ray.put(np.tile(rows, (400, 1))))  # small objects are not shared
        return super().train(parent, lesson, seed, tick)
