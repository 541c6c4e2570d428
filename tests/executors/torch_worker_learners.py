"""Factories and learners of torch that worker processes can import."""

import contextlib
import os
import signal
from pathlib import Path

import torch
from torch import nn

from cause.engine.progress import silent
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


class Noting(CountingLearner):
    """Keeps a tensor, and writes into it whatever it trains on."""

    def __init__(self):
        super().__init__()
        self.seen = torch.zeros(1)

    def train(self, parent, lesson, seed, tick=silent):
        self.seen += lesson.total
        return int(self.seen)
