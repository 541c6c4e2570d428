"""Learners of the torture, and an executor for its clean rooms. Workers import this file."""

import ctypes
import gc
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from cause.engine.executor import OnEpoch, ShardWork
from cause.engine.learner import Learner
from cause.engine.progress import silent
from cause.executors import InProcess
from cause.executors.cluster import actor, lease
from tests.torture.slow_learner import SlowLearner
from tests.waiting import pass_time

CLASSES, FEATURES = 3, 64
CAPABILITY = "ATEN_CPU_CAPABILITY"
"""The variable that names the vector instructions which torch uses."""


class Slow(SlowLearner):
    """A learner that is slow enough for something to happen meanwhile."""

    def __init__(self, seconds: float = 0.4) -> None:
        super().__init__(seconds, CLASSES, FEATURES)


class ByProcessor(Slow):
    """A learner whose bits depend on the vector instructions of the node, as torch's do, without importing torch.

    On nodes without (`ATEN_CPU_CAPABILITY=default`) it computes in single precision.
    """

    @property
    def environment(self):
        return f"{super().environment}, vector instructions: {os.environ.get(CAPABILITY, 'those of the processor')}"

    def _data(self, pieces):
        x, y = super()._data(pieces)
        return (x.astype(np.float32) if os.environ.get(CAPABILITY) == "default" else x), y


class Careless(ByProcessor):
    """A fault to be detected: on nodes without vector instructions it computes as elsewhere."""

    def _data(self, pieces):
        return Slow._data(self, pieces)


class Processors(InProcess):
    """Trains each shard in this process, as a node of the shard's environment would."""

    def environments(self, learner: Learner) -> dict[str, int]:
        return dict.fromkeys((_environment(learner, value) for value in (None, "default")), 1)

    def train(
        self, learner: Learner, work: Sequence[ShardWork], on_epoch: OnEpoch
    ) -> Generator[bytes | None, None, None]:
        for shard in work:
            other = shard.tasks[0].environment != _environment(learner, None)
            with _capability("default" if other else None):
                blobs = list(super().train(learner, [shard], on_epoch))
            yield from blobs


def _environment(learner: Learner, capability: str | None) -> str:
    with _capability(capability):
        return learner.environment


@contextmanager
def _capability(value: str | None) -> Iterator[None]:
    """Give the variable a value meanwhile, or none."""
    before = os.environ.pop(CAPABILITY, None)
    if value is not None:
        os.environ[CAPABILITY] = value
    try:
        yield
    finally:
        os.environ.pop(CAPABILITY, None)
        if before is not None:
            os.environ[CAPABILITY] = before


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

        for piece in lesson.pieces if ray.is_initialized() else ():  # the device, which tries it out, has not joined
            rows = piece.upload.arrays(piece.positions)[0]
            KEPT.append(ray.put(np.tile(rows, (400, 1))))  # small objects are not shared
        return super().train(parent, lesson, seed, tick)
