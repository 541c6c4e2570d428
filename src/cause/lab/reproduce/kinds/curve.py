"""A single sub-model tested after each epoch: the first shard of a system that learns all samples in one round."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cause.device.device import Cause
from cause.errors import LearnerError
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.kinds.train import shared_of
from cause.lab.reproduce.recipes import RECIPES
from cause.lab.reproduce.resources import Resources
from cause.learners import CountingLearner
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from cause.learners.torch.data import scaling
from cause.learners.torch.losses import computing
from cause.learners.torch.models import Factory, factory

FAR = 0.05
"""Two ways to compute the accuracy of one network differ by rounding, never by so much."""


class Watched:
    """A factory that keeps the last network that it made, so that it can be tested while it is trained."""

    def __init__(self, make: Factory) -> None:
        self._make = make
        self.network: nn.Module = nn.Identity()

    def __call__(self, *args: Any, **options: Any) -> nn.Module:
        """Make a network, and keep it."""
        self.network = self._make(*args, **options)
        return self.network


def run(settings: Settings, resources: Resources) -> dict[str, Any]:
    """Train a sub-model, test it after each epoch, and return the curve."""
    data = resources.data(settings["dataset"])
    training = RECIPES[settings["recipe"]]
    recipe, system = training.compose(data, settings["backbone"], settings["system"], settings["epochs"])
    make = training.start and training.start(data, recipe, settings["system"], settings["seed"], resources.device)
    shared = shared_of(data, {**settings, "rounds": 1, "rho": 0.0})
    # who gets what: the partition needs no network
    counting = Cause(
        learner=CountingLearner(), system=system, shards=settings["shards"], slots=4 * settings["shards"],
        classes=data.classes, seed=settings["seed"],
    )  # fmt: skip
    counting.learn(shared.uploads(shared.trace.rounds[0]))
    lesson, seed, _ = counting.chains()[0].lessons[0]
    watched = Watched(make or factory(recipe.model))
    learner = TorchLearner(recipe, make=watched, device=resources.device).composed(system)
    x, y = data.tests(settings["tests"])
    inputs, labels, curve = _inputs(x, recipe, learner.device), torch.from_numpy(y).to(learner.device), list[float]()

    def look(*_: int) -> None:
        with computing(learner.device, recipe.compute):
            curve.append(_accuracy(watched.network, inputs, labels))

    state = learner.train(None, lesson, seed, look)
    state = learner.decode(learner.encode(state))
    accuracy = float((learner.predict(state, x).argmax(axis=1) == y).mean())
    if abs(curve[-1] - accuracy) > FAR:
        raise LearnerError(f"the network watched is not the one trained: {curve[-1]:.3f} against {accuracy:.3f}")
    return {"curve": curve, "accuracy": accuracy, "samples": lesson.total, "environment": learner.environment}


def _inputs(x: NDArray[Any], recipe: Recipe, device: torch.device) -> torch.Tensor:
    if x.shape[1:] != recipe.shape and x.ndim == 4:
        x = np.moveaxis(x, -1, 1)
    inputs = torch.tensor(np.ascontiguousarray(x, dtype=np.float32)).reshape(-1, *recipe.shape)
    mean, std = scaling(recipe, inputs.device)
    scaled = inputs.sub_(mean).div_(std).to(device)
    return scaled.contiguous(memory_format=torch.channels_last) if scaled.is_cuda and scaled.dim() == 4 else scaled


@torch.no_grad()
def _accuracy(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the accuracy of a network during its training, without changing its state."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    guessed = torch.cat([network(part).argmax(1) for part in torch.split(x, 4096 if x.is_cuda else 1024)])
    for module, training in modes:
        module.training = training
    return float((guessed == y).float().mean())
