"""RCMP, the resource-constrained model pruning: prune a little, train on, prune again; filters are really removed."""

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn

from cause.errors import LearnerError
from cause.learners.torch.losses import check_tensor

STRIDES = 100  # how finely the pruner approaches its target
MOST = 0.98  # of a layer's filters
NOISE = (
    "Maximum recursive depth reached",  # of a long chain of layers, whose shapes the library then does without
    r"The \.grad attribute of a Tensor that is not a leaf",  # of a weight that weight norm computes
)
"""Warnings of torch-pruning, and of torch on its behalf, that a user can do nothing about."""


class IterativePruner:
    """Removes whole filters and channels in several steps, up to a share of the parameters.

    Parameters
    ----------
    network
        The network, as it is trained; it is changed in place.
    example
        One batch of inputs, to follow which layers depend on which.
    importance
        "magnitude" of the weights, or "gradient": magnitude × gradient of the last batch.
    round_to
        Widths stay multiples of this: layers of odd widths train slowly.
    whole
        Names of layers that keep all their filters, the one that answers among them; see `feasible`.
        None is for networks of ordinary layers: the last one answers, all others may lose filters.
    """

    def __init__(
        self,
        network: nn.Module,
        example: torch.Tensor,
        *,
        importance: str,
        round_to: int,
        whole: Collection[str] | None = None,
    ) -> None:
        import torch_pruning as tp

        self._network, self._example = network, example
        self._dense = parameters(network)
        self._by_gradient = importance == "gradient"
        kind = tp.importance.GroupTaylorImportance if self._by_gradient else tp.importance.GroupMagnitudeImportance
        kept = [*_frozen_layers(network)]
        if whole is None:
            kept.append(_last_layer(network))
        else:
            kept += [module for name, module in network.named_modules() if name in whole or _is_recurrent(module)]
        self._kept = set(kept)
        try:
            with evaluating(network), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of parameters outside ordinary layers, which are looked at before
                self._pruner: Any = tp.pruner.BasePruner(
                    network,
                    example,
                    importance=kind(),
                    iterative_steps=STRIDES,
                    pruning_ratio=MOST,
                    global_pruning=False,
                    ignored_layers=kept,
                    round_to=round_to if round_to > 1 else None,
                    in_channel_groups={},  # the pruner's own defaults are shared by all pruners of the process
                    out_channel_groups={},
                )
        except Exception as error:  # whatever it trips over in a user's network
            raise LearnerError(f"cannot prune the network: {error}") from error

    def groups(self) -> dict[str, list[Any]]:
        """Return the layers that could lose filters, by name, each with all layers that would change with it.

        Layers whose outputs no other layer takes in are left out: they are the network's answer.
        """
        names = {module: name for name, module in self._network.named_modules()}
        by_name = {}
        with quiet():
            groups = self._pruner.DG.get_all_groups(
                ignored_layers=self._pruner.ignored_layers, root_module_types=self._pruner.root_module_types
            )
            for group in groups:
                if any(self._takes_in(item.dep) for item in group):
                    by_name[names[group[0].dep.target.module]] = [item.dep.target.module for item in group]
        return by_name

    def _takes_in(self, dependency: Any) -> bool:
        graph = self._pruner.DG
        handler = dependency.handler
        return bool(graph.is_in_channel_pruning_fn(handler) and not graph.is_out_channel_pruning_fn(handler))

    def prune_to(self, share: float, *, strict: bool = True) -> None:
        """Remove filters up to this share of the dense network's parameters; if not strict, as many as possible."""
        target = self._dense * (1 - share)
        # A layer's parameters go with the square of its width: start a little below the width that follows from it.
        likely = 0.9 * (1 - (1 - share) ** 0.5) / MOST
        self._pruner.current_step = max(self._pruner.current_step, int(likely * STRIDES))
        while self._pruner.current_step < STRIDES:
            if parameters(self._network) <= target:
                break
            if self._removes_something(self._pruner.current_step + 1):
                with quiet():
                    self._pruner.step()
            else:
                self._pruner.current_step += 1
        if strict and parameters(self._network) > target:
            removed = 1 - parameters(self._network) / self._dense
            raise LearnerError(
                f"cannot remove {share:.0%} of the parameters: after {removed:.0%} no layer can lose a filter any more "
                f"(the widest left is {_widest(self._network)!r})"
            )
        self._check()

    def _removes_something(self, step: int) -> bool:
        """Return whether a step could remove a filter: in narrow layers most do not, and yet rank all by importance."""
        share = self._pruner.per_step_pruning_ratio[step]
        widths = {layer: width for layer, width in self._pruner.layer_init_out_ch.items() if layer not in self._kept}
        # the pruner's own arithmetic; a layer that it never touches may say yes, which costs time and no more
        return any(
            width is not None and self._pruner.DG.get_out_channels(layer) > int(width * (1 - share))
            for layer, width in widths.items()
        )

    def _check(self) -> None:
        """Raise a `LearnerError` if the pruned network does not run."""
        try:
            answers(self._network, self._example[:1])
        except LearnerError as error:
            raise LearnerError(f"cannot prune the network: {error}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Return a context that suppresses the warnings of `NOISE`, and no others."""
    with warnings.catch_warnings():
        for message in NOISE:
            warnings.filterwarnings("ignore", message)
        yield


def answers(network: nn.Module, example: torch.Tensor) -> torch.Tensor:
    """Return the outputs of a network for a batch, in eval mode.

    Raises
    ------
    LearnerError
        If it fails, which names the layer, or if its answer is no tensor.
    """
    entered: list[str] = []
    hooks = [
        module.register_forward_pre_hook(lambda _, __, name=name: entered.append(name))
        for name, module in network.named_modules()
        if not list(module.children()) and not isinstance(module, torch.jit.ScriptModule)  # which takes no hooks
    ]
    try:
        with torch.no_grad(), evaluating(network):
            outputs = network(example)
    except Exception as error:  # a user's network may raise anything
        where = f"layer {entered[-1]!r} does not fit: " if entered else ""
        first = (str(error).splitlines() or [""])[0]
        raise LearnerError(f"{where}{type(error).__name__}: {first}") from error
    finally:
        for hook in hooks:
            hook.remove()
    check_tensor(outputs)
    return cast(torch.Tensor, outputs)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Return a context in eval mode. It restores each module's own mode, since frozen ones stay in eval mode."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def parameters(network: nn.Module) -> int:
    """Return the number of parameters of a network."""
    return sum(parameter.numel() for parameter in network.parameters())


def _last_layer(network: nn.Module) -> nn.Module:
    """Return the layer that answers: its outputs are the classes."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    if not layers:
        raise LearnerError("cannot prune the network: it has no convolution and no linear layer")
    return layers[-1]


def _is_recurrent(module: nn.Module) -> bool:
    """Return whether a layer is recurrent: the pruner would take filters from it, and it could not be rebuilt."""
    return isinstance(module, nn.RNNBase)


def _frozen_layers(network: nn.Module) -> list[nn.Module]:
    return [m for m in network.modules() if any(not p.requires_grad for p in m.parameters(recurse=False))]


def _widest(network: nn.Module) -> str:
    sizes = [(sum(p.numel() for p in m.parameters(recurse=False)), name) for name, m in network.named_modules()]
    name: str = max(sizes)[1]
    return name
