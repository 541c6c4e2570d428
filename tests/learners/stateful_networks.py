"""Networks whose code remembers something outside the network: a trial must find each of them."""

import itertools
import random
import threading
import time
from typing import ClassVar

import numpy as np
import torch
from torch import nn

GENERATOR = torch.Generator().manual_seed(3)
NUMBERS = np.random.default_rng(3)
RANDOM = random.Random(3)
CACHE: dict[str, torch.Tensor] = {}
TABLES: dict[int, torch.Tensor] = {}
CALLS = [0]


class Base(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(6, 8), nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.relu(self.hidden(self.before(x.flatten(1)))))

    def before(self, x: torch.Tensor) -> torch.Tensor:
        return x


class ClassAttribute(Base):
    """A mean that moves along with all batches that any network ever saw."""

    mean = torch.zeros(6)

    def before(self, x):
        type(self).mean = 0.9 * type(self).mean + 0.1 * x.detach().mean(dim=0)
        return x - type(self).mean


class FirstBatch(Base):
    """Scales all inputs by the first batch that it ever saw."""

    def before(self, x):
        if "scale" not in CACHE:
            CACHE["scale"] = x.detach().abs().max()
        return x / CACHE["scale"]


class FirstBatchOfClass(Base):
    scale: float | None = None

    def before(self, x):
        if FirstBatchOfClass.scale is None:
            FirstBatchOfClass.scale = float(x.detach().abs().max())
        return x / FirstBatchOfClass.scale


class TorchGenerator(Base):
    def before(self, x):
        return x + torch.rand(x.shape, generator=GENERATOR)


class NumpyGenerator(Base):
    def before(self, x):
        return x + float(NUMBERS.random())


class RandomGenerator(Base):
    def before(self, x):
        return x + RANDOM.random()


class Counter(Base):
    def before(self, x):
        CALLS[0] += 1
        return x * (1 + 1 / CALLS[0])


class Clock(Base):
    def before(self, x):
        return x + time.perf_counter_ns() % 1000 / 1000


class Pure(Base):
    """Caches what follows from the width alone, and draws from the global generators: both are fine."""

    def before(self, x):
        if x.shape[1] not in TABLES:
            TABLES[x.shape[1]] = torch.arange(x.shape[1]) / x.shape[1]
        return nn.functional.dropout(x, 0.5, self.training) + TABLES[x.shape[1]]


def closure(classes: int, shape: tuple[int, ...]) -> nn.Module:
    return HOOKED(classes)


def _with_closure():
    seen: list[float] = []

    def make(classes: int) -> nn.Module:
        made = Base(classes)

        def hook(module: nn.Module, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            seen.append(float(given[0].detach().mean()))
            return (given[0] - sum(seen),)

        made.hidden.register_forward_pre_hook(hook)
        return made

    return make


HOOKED = _with_closure()


def swapped(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A loss that remembers."""
    CALLS[0] += 1
    return nn.functional.cross_entropy(outputs, labels) * CALLS[0]


def plain(classes: int, shape: tuple[int, ...]) -> nn.Module:
    return Base(classes)


class Nan(Base):
    """Its predictions are no numbers."""

    def before(self, x):
        return x if self.training else x * float("nan")


class Wide(Base):
    """One output too many."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes + 1)


class Narrow(Base):
    def __init__(self, classes: int) -> None:
        super().__init__(classes - 1)


class Tuple(Base):
    def forward(self, x):
        return super().forward(x), x


class PredictionCounter(Base):
    """Its training is pure, its predictions are not."""

    calls: ClassVar = [0]

    def before(self, x):
        if not self.training:
            self.calls[0] += 1
            return x + self.calls[0]
        return x


# Networks that only a trial in fresh processes finds: the first batch of the process is kept where nobody looks.


class _Holder:
    __slots__ = ("first",)

    def centred(self, x):
        if not hasattr(self, "first"):
            self.first = x.detach().mean(dim=0)
        return x - self.first


_centred = _Holder().centred


class BoundMethod(Base):
    def before(self, x):
        return _centred(x) if self.training else x


class OnAnotherModule(Base):
    def before(self, x):
        if self.training and not hasattr(nn.Linear, "first_batch"):
            setattr(nn.Linear, "first_batch", x.detach().mean(dim=0))  # noqa: B010 - it has no such attribute
        return x - getattr(nn.Linear, "first_batch") if self.training else x  # noqa: B009


class PredictionsReachTraining(Base):
    """The mean of what was predicted, where no place of the class shows it."""

    seen = threading.local()

    def before(self, x):
        if not self.training:
            self.seen.mean = x.mean(dim=0)
            return x
        return x - getattr(self.seen, "mean", 0.0)


class HashOfText(Base):
    """`hash` of a text is another one in each process."""

    def before(self, x):
        return x * (1 + hash("a text") % 1000)


def bound_method(classes, shape):
    return BoundMethod(classes)


def on_another_module(classes, shape):
    return OnAnotherModule(classes)


def predictions_reach_training(classes, shape):
    return PredictionsReachTraining(classes)


def hash_of_text(classes, shape):
    return HashOfText(classes)


def pure(classes, shape):
    return Pure(classes)


class ReplacedByEachFirstTraining(Base):
    """Every training from scratch sets it anew, so it shows only when a stored sub-model is used after another one."""

    ready: torch.Tensor

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.register_buffer("ready", torch.tensor(False))

    def before(self, x):
        if self.training and not self.ready:
            self.ready.fill_(True)
            type(self).first = x.detach().mean(0)  # type: ignore[attr-defined]
        return x - getattr(type(self), "first", 0)


def replaced_by_each_first_training(classes, shape):
    return ReplacedByEachFirstTraining(classes)


class SmallDrift(Base):
    """Each forward pass of the process scales a little more."""

    passes = itertools.count()

    def before(self, x):
        return x * (1 + 1e-6 * next(self.passes))


def small_drift(classes, shape):
    return SmallDrift(classes)
