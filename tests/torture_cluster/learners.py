"""Learners of the torture. Workers import this file."""

import ctypes
import gc
from pathlib import Path

import numpy as np

from cause.engine.progress import silent
from cause.executors.cluster import actor, lease
from cause.learners.sklearn import SklearnLearner
from tests.waiting import pass_time

CLASSES, FEATURES = 3, 64
STEPS = 10


class Slow(SklearnLearner):
    """Bayes, after a while, so that something can happen meanwhile. It has the samples in memory all the time."""

    def __init__(self, seconds: float = 0.4) -> None:
        from sklearn.naive_bayes import GaussianNB

        super().__init__(GaussianNB(), classes=CLASSES, features=FEATURES)
        self.seconds = seconds

    def train(self, parent, lesson, seed, tick=silent):
        for step in range(STEPS):
            pass_time(self.seconds / STEPS)
            tick(step, STEPS)
        return super().train(parent, lesson, seed, silent)


KEPT: list[object] = []


class Stubborn(Slow):
    """A fault to be detected: its workers keep the samples, end neither when they are told nor with their lease."""

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
