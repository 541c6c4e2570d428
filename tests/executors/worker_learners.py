"""Learners that worker processes can import quickly: none of them needs torch."""

import contextlib
import os
import signal
from pathlib import Path
from weakref import WeakSet

from cause.engine.progress import silent
from cause.errors import LearnerError
from cause.learners import CountingLearner
from tests.waiting import pass_time, wait_until


class Endless(CountingLearner):
    """Never comes to an end."""

    def train(self, parent, lesson, seed, tick=silent):
        while True:
            tick(0, 1)
            pass_time(0.02)


class Killed(CountingLearner):
    """Its worker is killed before a segment, as often as there are files to take away."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def train(self, parent, lesson, seed, tick=silent):
        with contextlib.suppress(StopIteration):
            next(Path(self.folder).iterdir()).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train(parent, lesson, seed, tick)


class Held(CountingLearner):
    """Counts a shard's samples once there is a file with the shard's number."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def train(self, parent, lesson, seed, tick=silent):
        wait_until(Path(self.folder, str(lesson.segment.shard)).exists, 120)
        return super().train(parent, lesson, seed, tick)


class Raising(CountingLearner):
    """Raises what cannot be sent anywhere."""

    def train(self, parent, lesson, seed, tick=silent):
        class Local(Exception):
            pass

        raise Local("no such thing")


class OnGpu(CountingLearner):
    """Says that it trains on a GPU."""

    device_type = "cuda"


class Circular(CountingLearner):
    """Leaves what it trained in a circle, as networks lie."""

    def train(self, parent, lesson, seed, tick=silent):
        circle = Circle()
        circle.own = circle  # type: ignore[attr-defined]
        CIRCLES.add(circle)
        return super().train(parent, lesson, seed, tick)


class Circle:
    """Refers to itself."""


CIRCLES: WeakSet[Circle] = WeakSet()
"""Those that are still there."""


class Viewing(CountingLearner):
    """Encodes into what cannot be sent."""

    def encode(self, state):
        return memoryview(super().encode(state))


class Fussy(CountingLearner):
    """Raises what can be sent, and not be read."""

    def train(self, parent, lesson, seed, tick=silent):
        raise FussyError("of", "two")


class FussyError(LearnerError):
    def __init__(self, one, other):
        super().__init__(one + other)


class Large(CountingLearner):
    """Its sub-models are large."""

    def encode(self, state):
        return bytes(1 << 20)


class Echoing(CountingLearner):
    """Its sub-models are the samples."""

    def train(self, parent, lesson, seed, tick=silent):
        return b"".join(piece.upload.arrays(piece.positions)[0].tobytes() for piece in lesson.pieces)

    def encode(self, state):
        return state


def _missing():
    raise ModuleNotFoundError("No module named 'only_here'")


class Unloadable(CountingLearner):
    """Its module is on the device alone."""

    def __reduce__(self):
        return _missing, ()


class Refusing(CountingLearner):
    """Counts, but not the samples of a shard while there is a file with its number."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def train(self, parent, lesson, seed, tick=silent):
        if Path(self.folder, str(lesson.segment.shard)).exists():
            raise LearnerError(f"shard {lesson.segment.shard} cannot be counted")
        return super().train(parent, lesson, seed, tick)
