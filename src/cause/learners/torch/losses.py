"""The loss of a network on a batch: cross entropy, or a user's own function."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import nn

from cause.common.importing import imported
from cause.errors import LearnerError
from cause.learners.recipe import Recipe


def computing(device: torch.device, compute: str) -> AbstractContextManager[object]:
    """Return the context of a recipe's `compute`: autocast for bf16 on a GPU; a CPU computes in fp32."""
    if device.type == "cuda" and compute == "bf16":
        return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)  # a recorded step must not rely on a cache
    return nullcontext()


def loss_of(network: nn.Module, x: torch.Tensor, y: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """Return the mean loss of a network on a batch.

    Parameters
    ----------
    network
        The network.
    x, y
        A batch.
    recipe
        Names the loss, class weights and precision.

    Raises
    ------
    LearnerError
        If the network does not answer with one number for each class, or a loss of one's own with one number.
    """
    with computing(x.device, recipe.compute):
        outputs = network(x)
        check_outputs(outputs, len(x), recipe.classes)
        if recipe.loss is not None:
            return _checked(imported(recipe.loss, "loss")(outputs, y), recipe.loss)
        weight = _weights(recipe.class_weights, x.device) if recipe.class_weights else None
        return nn.functional.cross_entropy(outputs, y, weight, label_smoothing=recipe.label_smoothing)


def check_tensor(outputs: Any) -> None:
    """Raise a `LearnerError` if a network's answer is no tensor."""
    if not isinstance(outputs, torch.Tensor):
        raise LearnerError(f"the network returns a {type(outputs).__name__}, not a tensor of (samples, classes)")


def check_outputs(outputs: Any, samples: int, classes: int, *, exactly: bool = False) -> None:
    """Raise a `LearnerError` unless a network has one output for each class.

    Unused outputs beyond the classes are refused if `exactly` is set, which is the case when a device is made. Devices
    of earlier versions may have them.

    Parameters
    ----------
    outputs
        What the network returned.
    samples, classes
        How many inputs it got, and how many classes there are.
    exactly
        Refuse outputs beyond the classes too.
    """
    check_tensor(outputs)
    shape = tuple(outputs.shape)
    if len(shape) != 2 or shape[0] != samples or shape[1] < classes or (exactly and shape[1] != classes):
        raise LearnerError(
            f"the network returns outputs of shape {shape} for {samples} inputs, not {(samples, classes)}: its last "
            f"layer must have one output for each of the {classes} classes"
        )


def _checked(loss: Any, name: str) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor) or loss.dim() or not loss.requires_grad:
        seen = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(loss)
        raise LearnerError(f"the loss {name!r} must return one number that depends on the outputs, not {seen}")
    return loss


@cache
def _weights(weights: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """Return the weights of the classes, made once: a recorded step must not bring anything from the host."""
    return torch.tensor(weights, dtype=torch.float32).to(device)
