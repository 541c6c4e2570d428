"""The pruning plan of a recipe: which layers may lose filters."""

from collections.abc import Callable

import torch
from torch import nn

from cause.learners.recipe import TARGET, Recipe
from cause.learners.torch.freezing import prune_steps
from cause.learners.torch.pruning import one_shot
from cause.learners.torch.pruning.feasible import Plan, plan


def needs_trial(recipe: Recipe, *, is_ours: bool) -> bool:
    """Return whether the plan has to be computed from the network; `is_ours` says that it is one of this package."""
    if recipe.pruning == "one-shot":
        return not is_ours
    return recipe.pruning == "iterative" and recipe.target is not None and not (is_ours and _is_known(recipe))


def plan_of(recipe: Recipe, build: Callable[[], nn.Module], device: torch.device, tokens: int | None) -> Plan:
    """Compute the plan of a network; the caller has seeded the generators.

    Parameters
    ----------
    recipe
        Names the pruning.
    build
        Makes the network.
    device
        Where the network is.
    tokens
        With whole numbers as inputs: how many there are, from 0.
    """
    if recipe.pruning == "one-shot":
        return Plan(note=None if one_shot.layers(build()) else one_shot.NOTHING)
    assert recipe.target is not None
    kind = torch.int64 if recipe.input_dtype == "int64" else torch.float32
    example = torch.zeros(2, *recipe.shape, dtype=kind, device=device)
    steps = prune_steps(recipe, recipe.epochs)
    return plan(build, example, target=recipe.target, round_to=recipe.round_to, steps=steps, tokens=tokens)


def _is_known(recipe: Recipe) -> bool:
    """Return whether the paper's share of the model can be pruned: at its usual width all of our models allow it."""
    return not recipe.options and recipe.round_to <= 8 and (recipe.target or 0) <= TARGET
