"""Training steps that torch runs eagerly, one after the other."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import nn

from cause.learners.recipe import Recipe
from cause.learners.torch.batches import Cut
from cause.learners.torch.data import Samples
from cause.learners.torch.losses import loss_of
from cause.learners.torch.optimizers import fresh
from cause.learners.torch.pruning import one_shot


class Steps(Protocol):
    """Trains a network, an epoch at a time."""

    def epoch(self, order: torch.Tensor, cuts: Sequence[Cut]) -> None:
        """Visit every sample once."""

    def settle(self) -> None:
        """Make the gradients of the last batch available to a pruner, in `.grad` of the parameters."""


class PlainSteps:
    """Runs each step eagerly: forward, backward, update, next learning rate.

    Parameters
    ----------
    network
        The network that is trained.
    samples, y
        Inputs and labels of the segment.
    recipe
        Says how it is trained.
    masks
        Which weights one-shot pruning has removed, by parameter.
    steps
        How many steps the schedule of the learning rate has.
    """

    def __init__(
        self,
        network: nn.Module,
        samples: Samples,
        y: torch.Tensor,
        recipe: Recipe,
        masks: Mapping[str, torch.Tensor],
        steps: int,
    ) -> None:
        self._network, self._samples, self._y, self._recipe, self._masks = network, samples, y, recipe, masks
        self._optimizer, self._schedule = fresh(recipe, network, steps)

    def epoch(self, order: torch.Tensor, cuts: Sequence[Cut]) -> None:
        """Visit every sample once, batch by batch."""
        order = order.to(self._y.device)
        for start, stop in cuts:
            chosen = order[start:stop]
            x = self._samples.batch(chosen, augmented=self._recipe.augmentation == "crop-flip")
            self._optimizer.zero_grad(set_to_none=True)
            loss_of(self._network, x, self._y[chosen], self._recipe).backward()
            self._optimizer.step()
            if self._schedule is not None:
                self._schedule.step()
            if self._masks:
                one_shot.apply(self._network, self._masks)

    def settle(self) -> None:
        """Do nothing: the gradients of the last batch are where torch puts them."""
