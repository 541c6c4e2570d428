"""Finds out, on copies of a network and before any training, which of its layers can be pruned.

Which filters go is decided while a first segment is trained; which layers may lose filters at all is decided here, and
it is the same for every segment, seed and user: it follows from the recipe and the network's code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrize import is_parametrized

from cause.errors import LearnerError
from cause.learners.torch.pruning.iterative import IterativePruner, answers, parameters
from cause.learners.torch.pruning.widths import shrink

KINDS = (nn.Linear, _ConvNd, _NormBase, nn.LayerNorm, nn.GroupNorm, nn.Embedding, nn.PReLU)
"""Layers that can lose inputs or outputs, and be rebuilt from the widths of their stored tensors."""
NAMED = 4
"""How many layers a note names."""
NOTHING = "no layer of this network can lose filters: it is trained whole, as with pruning=none in the system"


@dataclass(frozen=True)
class Plan:
    """Which layers of a network keep all their filters."""

    whole: tuple[str, ...] | None = None
    """None for a network that the pruner can take as it is; otherwise every layer that does not take part."""
    prunable: bool = True
    """Whether there is anything to prune."""
    removed: int | None = None
    """The number of parameters that are removed, if it is less than the target."""
    note: str | None = None
    """A sentence for the user if less is pruned than the target."""


def plan(
    make: Callable[[], nn.Module],
    example: torch.Tensor,
    *,
    target: float,
    round_to: int,
    steps: int = 1,
    tokens: int | None = None,
) -> Plan:
    """Return which layers of a network must keep all their filters.

    Parameters
    ----------
    make
        Makes the network: the same structure at each call.
    example
        A batch of inputs; only its shape and type matter.
    target
        The share of the parameters that is to go.
    round_to
        Widths stay multiples of this.
    steps
        In how many steps the share is reached.
    tokens
        With whole numbers as inputs: how many there are, from 0.

    Returns
    -------
    Plan
        For a network that cannot be pruned at all, one that says so: it is trained whole.

    Raises
    ------
    LearnerError
        If the network does not run, or its answer is no tensor.

    Examples
    --------
    >>> plan(lambda: nn.Linear(4, 2), torch.zeros(2, 4), target=0.7, round_to=1).prunable
    False
    """
    trial = _Trial(make, example, [target * (step + 1) / steps for step in range(steps)], round_to)
    pruned = trial.pruned(None)
    whole: tuple[str, ...] | None = None
    if pruned is None:
        whole, pruned = trial.settle()
    branches = pruned is not None and not trial.runs_on(pruned, probes(example, tokens))
    if branches:  # other inputs run through other layers, which still have the widths of the dense network
        whole, pruned = trial.settle()
    dense = parameters(make())
    removed = 0 if pruned is None else dense - parameters(pruned)
    if pruned is None or not removed:
        return Plan(whole if branches else None, prunable=False, removed=0, note=NOTHING)
    lacking = removed < dense * target
    if whole is None and not lacking:
        return Plan()
    kept = trial.unchanged(pruned)
    named = ", ".join(kept[:NAMED]) + (f" and {len(kept) - NAMED} more" if len(kept) > NAMED else "")
    note = f"pruning removes {removed / dense:.0%} of the parameters" + (f", not {target:.0%}" if lacking else "")
    return Plan(whole, removed=removed if lacking else None, note=note + (f": kept whole are {named}" if kept else ""))


class _Trial:
    """Prunes copies of a network to the target, or as far as possible, and tests whether they run."""

    def __init__(
        self, make: Callable[[], nn.Module], example: torch.Tensor, shares: Sequence[float], round_to: int
    ) -> None:
        self._make, self._example, self._shares, self._round_to = make, example, shares, round_to
        self._probes: list[torch.Tensor] = []
        try:
            self._shape = self._outputs(make()).shape
        except LearnerError as error:
            raise LearnerError(f"the network fails on inputs of shape {tuple(example.shape[1:])}: {error}") from None

    def runs_on(self, pruned: nn.Module, inputs: Sequence[torch.Tensor]) -> bool:
        """Return whether a pruned network runs on other inputs too, as far as the dense one does.

        The inputs are kept: a network that is pruned from now on has to run on them.
        """
        dense = self._make()
        self._probes = [probe for probe in inputs if self._runs(dense, probe)]
        return all(self._runs(pruned, probe) for probe in self._probes)

    def _runs(self, network: nn.Module, inputs: torch.Tensor) -> bool:
        """Return whether a network runs on a batch, in eval mode and, if layers are unused there, in train mode."""
        try:
            network = self._rebuilt(network)  # statistics of batches change in train mode
            entered: set[nn.Module] = set()
            layers = [module for module in network.modules() if list(module.parameters(recurse=False))]
            for layer in layers:
                if not isinstance(layer, torch.jit.ScriptModule):
                    layer.register_forward_pre_hook(lambda module, _: entered.add(module))
            if self._outputs(network, inputs).shape != self._shape:
                return False
            if entered.issuperset(layers):
                return True  # train mode could set what a user's code keeps, which a trial must find
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                return bool(network.train()(inputs).shape == self._shape)
        except Exception:  # a user's network may raise anything
            return False

    def pruned(self, whole: Sequence[str] | None) -> nn.Module | None:
        """Return a network with all layers pruned but these; None if the result does not run."""
        network = self._make()
        try:
            pruner = IterativePruner(
                network, self._example, importance="magnitude", round_to=self._round_to, whole=whole
            )
            for share in self._shares:
                pruner.prune_to(share, strict=False)
            outputs = self._outputs(network)
            same = outputs.shape == self._shape and torch.equal(self._outputs(self._rebuilt(network)), outputs)
            same = same and all(self._runs(network, probe) for probe in self._probes)
        except Exception:  # whatever the pruner or the network trips over
            return None
        return network if same else None

    def _rebuilt(self, network: nn.Module) -> nn.Module:
        """Return a copy of a network, built as a stored sub-model is."""
        again, state = self._make(), network.state_dict()
        shrink(again, state)
        again.load_state_dict(state)
        return again

    def settle(self) -> tuple[tuple[str, ...], nn.Module | None]:
        """Return the layers that must keep their filters so that the others can be pruned, and that network."""
        network = self._make()
        layers = [name for name, module in network.named_modules() if isinstance(module, nn.Linear | _ConvNd)]
        try:
            groups = IterativePruner(
                network, self._example, importance="magnitude", round_to=self._round_to, whole=()
            ).groups()
        except Exception:  # whatever the pruner trips over
            return tuple(layers), None
        roots = [root for root, members in groups.items() if all(map(_is_supported, members))]
        chosen = self._together(layers, [], roots)
        whole = tuple(name for name in layers if name not in chosen)
        return whole, self.pruned(whole) if chosen else None

    def _together(self, layers: Sequence[str], base: list[str], more: list[str]) -> list[str]:
        """Return as many of `more` as can be pruned together with `base`: all, or those of each half that can."""
        if not more or self.pruned([name for name in layers if name not in {*base, *more}]) is not None:
            return base + more
        if len(more) == 1:
            return base
        half = len(more) // 2
        return self._together(layers, self._together(layers, base, more[:half]), more[half:])

    def unchanged(self, pruned: nn.Module) -> list[str]:
        """Return the layers that still have all their parameters."""
        dense = {name: parameter.shape for name, parameter in self._make().named_parameters()}
        modules, same = dict(pruned.named_modules()), dict[str, bool]()
        for name, parameter in pruned.named_parameters():
            path = name.rpartition(".")[0].partition(".parametrizations")[0]
            same[path] = same.get(path, True) and dense[name] == parameter.shape
        return [f"{path or 'all'} ({type(modules[path]).__name__})" for path, whole in same.items() if whole]

    def _outputs(self, network: nn.Module, inputs: torch.Tensor | None = None) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            return answers(network, self._example if inputs is None else inputs)


def probes(example: torch.Tensor, tokens: int | None) -> list[torch.Tensor]:
    """Return inputs of other values, on which code with branches takes other ways: of either sign, large and mixed.

    >>> [probe.tolist() for probe in probes(torch.zeros(1, 2, dtype=torch.int64), 5)]
    [[[4, 4]], [[0, 2]]]
    """
    count = example.numel()
    if not example.is_floating_point():
        most = (tokens or 2) - 1
        mixed = torch.arange(count, device=example.device).reshape(example.shape) * (most // 2) % (most + 1)
        return [torch.full_like(example, most), mixed]
    mixed = torch.linspace(-2, 3, count, device=example.device).reshape(example.shape)
    return [torch.full_like(example, value) for value in (1.0, -1.0, 100.0, -100.0)] + [mixed, -mixed]


def _is_supported(module: object) -> bool:
    """Return whether it is a layer that can be rebuilt from its tensors, or a mere operation on tensors."""
    if not isinstance(module, nn.Module) or type(module).__module__.startswith("torch_pruning"):
        return True
    return isinstance(module, KINDS) and not is_parametrized(module) and not module._forward_pre_hooks
