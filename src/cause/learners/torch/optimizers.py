"""Optimizers and learning rates. Each segment gets new ones."""

import math
from typing import Any

import torch
from torch import nn

from cause.learners.recipe import Recipe

WARM = 0.2
"""The share of the steps in which the learning rate rises, with the schedule "warm-cosine"."""


def fresh(recipe: Recipe, network: nn.Module, steps: int) -> tuple[torch.optim.Optimizer, Any]:
    """Return a new optimizer, and a schedule over so many steps; None for a constant rate."""
    optimizer = _optimizer(recipe, [p for p in network.parameters() if p.requires_grad], recipe.lr)
    return optimizer, _schedule(recipe, optimizer, steps)


def on_device(recipe: Recipe, network: nn.Module, lr: torch.Tensor) -> torch.optim.Optimizer:
    """Return an optimizer whose learning rate is a tensor on the device, so that its steps can be recorded."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    if recipe.optimizer == "rmsprop":  # there is no fused one
        return _optimizer(recipe, parameters, lr, foreach=True, capturable=lr.is_cuda)
    capturable = {"capturable": lr.is_cuda} if recipe.optimizer == "adam" else {}
    return _optimizer(recipe, parameters, lr, fused=True, **capturable)


def rates(recipe: Recipe, steps: int) -> list[float]:
    """Return the learning rate of each step.

    >>> [round(lr, 6) for lr in rates(Recipe("mlp", 10, (64,), lr=0.1, schedule="warm-cosine"), 10)]
    [0.05, 0.1, 0.096985, 0.088302, 0.075, 0.058682, 0.041318, 0.025, 0.011698, 0.003015]
    """
    optimizer = _optimizer(recipe, [nn.Parameter(torch.zeros(1))], recipe.lr)
    schedule = _schedule(recipe, optimizer, steps)
    lrs = []
    for _ in range(steps):
        lrs.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return lrs


def _optimizer(recipe: Recipe, parameters: list[nn.Parameter], lr: Any, **how: Any) -> torch.optim.Optimizer:
    decay = recipe.weight_decay
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr, recipe.momentum, weight_decay=decay, nesterov=recipe.nesterov, **how)
    if recipe.optimizer == "rmsprop":
        return torch.optim.RMSprop(parameters, lr, weight_decay=decay, **how)
    return torch.optim.Adam(parameters, lr, weight_decay=decay, **how)


def _schedule(recipe: Recipe, optimizer: torch.optim.Optimizer, steps: int) -> Any:
    schedulers = torch.optim.lr_scheduler
    if recipe.schedule == "cosine":
        return schedulers.CosineAnnealingLR(optimizer, steps)
    if recipe.schedule == "one-cycle":
        return schedulers.OneCycleLR(optimizer, recipe.lr, total_steps=max(2, steps))
    if recipe.schedule == "warm-cosine":
        warm = max(1, round(WARM * steps))
        return schedulers.LambdaLR(optimizer, lambda step: _warm_cosine(step + 1, warm, steps))
    return None  # constant


def _warm_cosine(step: int, warm: int, steps: int) -> float:
    """Return the share of the highest rate: a straight line up, then half a cosine down to 0 after the last step."""
    if step <= warm or steps <= warm:
        return step / warm
    return 0.5 * (1.0 + math.cos(math.pi * (step - warm) / (steps - warm + 1)))
