"""Factories and learners that worker processes can import."""

import contextlib
import os
import signal
import time
from pathlib import Path
from weakref import WeakSet

import torch
from torch import nn

from cause.engine.progress import silent
from cause.errors import LearnerError
from cause.learners import CountingLearner
from cause.learners.torch import TorchLearner


def with_frozen_backbone(classes, shape):
    """A public backbone with batch normalisation, and a head with dropout."""
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 8), nn.BatchNorm1d(8))
    for parameter in backbone.parameters():
        parameter.requires_grad = False
    return nn.Sequential(backbone, nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, classes))


class Dying(TorchLearner):
    """Its worker is killed in the middle of a segment, as often as there are files to take away."""

    def __init__(self, recipe, folder):
        super().__init__(recipe)
        self.folder = str(folder)

    def train(self, parent, lesson, seed, tick):
        def tick_and_die(done, total):
            tick(done, total)
            for life in sorted(Path(self.folder).glob("*")):
                with contextlib.suppress(FileNotFoundError):  # the other worker took it
                    life.unlink()
                    os.kill(os.getpid(), signal.SIGKILL)

        return super().train(parent, lesson, seed, tick_and_die)


class Endless(TorchLearner):
    """Never comes to an end."""

    def train(self, parent, lesson, seed, tick):
        while True:
            tick(0, 1)
            time.sleep(0.02)


class Held(CountingLearner):
    """Counts a shard's samples once there is a file with the shard's number."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def train(self, parent, lesson, seed, tick=silent):
        while not Path(self.folder, str(lesson.segment.shard)).exists():
            time.sleep(0.02)
        return super().train(parent, lesson, seed, tick)


class Raising(TorchLearner):
    """Raises what cannot be sent anywhere."""

    def train(self, parent, lesson, seed, tick):
        class Local(Exception):
            pass

        raise Local("no such thing")


class Noting(CountingLearner):
    """Keeps a tensor, and writes into it whatever it trains on."""

    def __init__(self):
        super().__init__()
        self.seen = torch.zeros(1)

    def train(self, parent, lesson, seed, tick=silent):
        self.seen += lesson.total
        return int(self.seen)


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


class Refusing(CountingLearner):
    """Counts, but not the samples of a shard while there is a file with its number."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def train(self, parent, lesson, seed, tick=silent):
        if Path(self.folder, str(lesson.segment.shard)).exists():
            raise LearnerError(f"shard {lesson.segment.shard} cannot be counted")
        return super().train(parent, lesson, seed, tick)
