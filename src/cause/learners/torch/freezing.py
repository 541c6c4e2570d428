"""The parts of a network: parameters that learn, frozen ones, and masks; and the size that pruning leaves."""

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from cause.errors import InputError
from cause.learners.recipe import Recipe
from cause.learners.torch.pruning import one_shot


def frozen(network: nn.Module) -> set[str]:
    """Return the names of frozen parameters, and of the buffers of modules all of whose parameters are frozen."""
    names = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    for path, module in network.named_modules():
        parameters = list(module.parameters(recurse=False))
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            names |= {f"{path}.{name}" if path else name for name, _ in module.named_buffers(recurse=False)}
    return names


def freeze(network: nn.Module, names: Sequence[str]) -> None:
    """Freeze the parameters of layers: those that are named so, or below a layer that is.

    Raises
    ------
    InputError
        If a name is that of no layer, or nothing is left to train.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    >>> freeze(network, ["0"])
    >>> sorted(frozen(network))
    ['0.bias', '0.weight']
    """
    for name in names:
        parameters = [p for own, p in network.named_parameters() if own == name or own.startswith(f"{name}.")]
        if not parameters:
            layers = ", ".join(dict.fromkeys(own.partition(".")[0] for own, _ in network.named_parameters()))
            raise InputError(f"the network has no layer {name!r} to freeze: those with weights are {layers}")
        for parameter in parameters:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise InputError("every layer is frozen: nothing is left to train")


def train_mode(network: nn.Module, *, alone: bool) -> None:
    """Set training mode, but eval mode for frozen modules, and for batch normalisation if there is a single sample."""
    network.train()
    for module in network.modules():
        parameters = list(module.parameters(recurse=False))
        is_frozen = bool(parameters) and not any(parameter.requires_grad for parameter in parameters)
        normalising = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if is_frozen or (alone and normalising):
            module.eval()


def masks_of(state: Mapping[str, torch.Tensor] | None, device: torch.device) -> dict[str, torch.Tensor]:
    """Return the masks (True: kept) that one-shot pruning stored in a state, by parameter."""
    masked = {} if state is None else {n: t for n, t in state.items() if n.endswith(one_shot.MASK)}
    return {name.removesuffix(one_shot.MASK): mask.to(device) for name, mask in masked.items()}


def target_bytes(recipe: Recipe, tensors: Sequence[tuple[int, int, bool]], removed: int | None = None) -> int:
    """Return the uncompressed size of a sub-model after pruning, or after so many parameters were removed.

    A tensor is given by its number of elements, their size, and whether they are floats.
    """
    numbers = sum(count for count, _, floating in tensors if floating)
    others = sum(count * size for count, size, floating in tensors if not floating)
    left = 1.0 if recipe.pruning == "none" else 1 - (recipe.target or 0)
    kept = round(numbers * left) if removed is None else numbers - removed
    bits = numbers // 8 if recipe.pruning == "one-shot" else 0
    return max(1, kept * (2 if recipe.precision == "bf16" else 4) + bits + others)


def prune_steps(recipe: Recipe, epochs: int) -> int:
    """Return in how many steps a first segment of so many epochs is pruned."""
    return min(recipe.steps, max(1, epochs - 1))


def prune_at(recipe: Recipe, epochs: int) -> dict[int, float]:
    """Return the epochs of a first segment before which it is pruned, with the share removed by then."""
    if recipe.pruning == "none" or recipe.target is None:
        return {}
    if recipe.pruning == "one-shot":
        return {epochs // 2: recipe.target}
    steps = prune_steps(recipe, epochs)
    return {(step + 1) * epochs // (steps + 1): recipe.target * (step + 1) / steps for step in range(steps)}
