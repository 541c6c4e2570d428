"""Checks of a network's factory: it must make a new network at each call, whose weights depend on the seed alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from cause.common.hashing import digest
from cause.errors import LearnerError
from cause.learners.codec import state_digest
from cause.learners.recipe import Recipe
from cause.learners.torch.isolation import seed_all

Make = Callable[[], nn.Module]


@dataclass(frozen=True)
class Inputs:
    """The type of a network's inputs."""

    dtype: str | None = None
    """"int64" if it wants whole numbers; None for floats."""
    tokens: int | None = None
    """With whole numbers: how many there are, from 0, where an embedding says so."""


def check_network(network: Any) -> None:
    """Raise a `LearnerError` if a network cannot be trained or stored: no module, lazy layers, other state."""
    if not isinstance(network, nn.Module):
        raise LearnerError(f"the model's factory returns a {type(network).__name__}, not a torch.nn.Module")
    for path, module in network.named_modules():
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if any(is_lazy(tensor) for tensor in tensors):
            kind = type(module).__name__
            raise LearnerError(
                f"layer {path!r} is a {kind}, whose size would follow from the first data: say it in the factory, "
                f"with {kind.removeprefix('Lazy')}"
            )
    if not any(parameter.requires_grad for parameter in network.parameters()):
        why = "all of them are frozen (requires_grad=False)" if list(network.parameters()) else "it has none"
        raise LearnerError(
            f"the network has no weight that training could change: {why}; leave at least one layer free"
        )
    for name, value in network.state_dict().items():
        if not isinstance(value, torch.Tensor):
            raise LearnerError(f"the network's state {name!r} is a {type(value).__name__}: only tensors are stored")


def check_factory(make: Make) -> nn.Module:
    """Make two networks from one seed; refuse a factory if they share anything or their weights differ.

    Two networks that share weights would train each other: a sub-model would depend on what others learned. Weights
    that differ under one seed depend on something that a replay does not know.

    Returns
    -------
    nn.Module
        One of the two networks.
    """
    seed = digest("a network made twice")
    seed_all(seed)
    one = make()
    check_network(one)
    seed_all(seed)
    other = make()
    check_network(other)
    shared = next(_shared(one, other), None)
    if shared is not None:
        raise LearnerError(
            f"the model's factory returns {shared} again when it is called a second time: it must make a new network "
            "at each call, since sub-models that share weights would learn from each other's data"
        )
    states = [
        {name: t.clone() for name, t in network.state_dict().items()} for network in (one, other)
    ]  # some are tied
    if state_digest(states[0]) != state_digest(states[1]):
        name = next((n for n in states[0] if _differs(states[0][n], states[1].get(n))), "a part")
        raise LearnerError(
            f"the model's factory makes other weights ({name!r}) at its second call with the same seed: draw them from "
            "torch's, numpy's or random's global generator, which are seeded for each segment, and keep nothing "
            "between calls"
        )
    return one


def _shared(one: nn.Module, other: nn.Module) -> Iterator[str]:
    """Return what two networks have in common, in words."""
    modules = set(map(id, one.modules()))
    for path, module in other.named_modules():
        if id(module) in modules:
            yield f"the same layer {path!r}" if path else "the same network"
    places = {_place(tensor) for tensor in [*one.parameters(), *one.buffers()]} - {0}
    for kind, tensors in (("parameter", other.named_parameters()), ("buffer", other.named_buffers())):
        for name, tensor in tensors:
            if _place(tensor) in places:
                yield f"the same {kind} {name!r}"


def _place(tensor: torch.Tensor) -> int:
    """Return where the numbers of a tensor are in memory; 0 if it has none."""
    return tensor.untyped_storage().data_ptr() if tensor.numel() else 0


def _differs(one: torch.Tensor, other: torch.Tensor | None) -> bool:
    return other is None or one.shape != other.shape or state_digest({"": one}) != state_digest({"": other})


def inputs_of(network: nn.Module, recipe: Recipe, device: torch.device) -> Inputs:
    """Return the type of a network's inputs: whole numbers if it has an embedding and does not take floats."""
    embeddings = [module for module in network.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)]
    if recipe.input_dtype == "float32" or (recipe.input_dtype is None and not embeddings):
        return Inputs()
    network = network.to(device).eval()
    if recipe.input_dtype is None and _runs(network, torch.zeros(2, *recipe.shape, device=device)):
        return Inputs()
    x = torch.zeros(2, *recipe.shape, dtype=torch.int64, device=device)
    seen: list[int] = []
    hooks = [module.register_forward_pre_hook(_noting(x, seen)) for module in embeddings]
    try:
        runs = _runs(network, x)
    finally:
        for hook in hooks:
            hook.remove()
    if recipe.input_dtype is None and not runs:
        return Inputs()  # it takes neither: training says what is wrong
    return Inputs("int64", min(seen, default=None))


def _noting(x: torch.Tensor, seen: list[int]) -> Callable[[nn.Module, Any], None]:
    """Return a hook that notes the size of an embedding which gets the inputs as they are."""

    def note(module: nn.Module, given: Any) -> None:
        if given and isinstance(given[0], torch.Tensor) and _place(given[0]) == _place(x):
            seen.append(int(cast(Any, module).num_embeddings))

    return note


def _runs(network: nn.Module, x: torch.Tensor) -> bool:
    try:
        with torch.no_grad():
            network(x)
    except Exception:  # a user's network may raise anything
        return False
    return True
