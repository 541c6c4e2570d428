"""Training steps on a GPU, recorded once as a CUDA graph and replayed, with the same bits as eager steps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from cause.learners.recipe import Recipe
from cause.learners.torch.batches import Cut
from cause.learners.torch.data import Resident
from cause.learners.torch.losses import loss_of
from cause.learners.torch.optimizers import on_device, rates

WORTH = 8
"""How many steps of a size there must be for recording one to pay: it takes about as long as a few of them."""


@dataclass(frozen=True)
class _Recording:
    """A step of one size. It reads which samples to take from `chosen`."""

    graph: torch.cuda.CUDAGraph
    chosen: torch.Tensor
    gradients: list[torch.Tensor | None]


class DeviceSteps:
    """A whole step (scaling, augmentation, forward, backward, update) without a word from the device to the host.

    The first step of each size runs as torch runs it; the second is recorded, if enough of them follow. A replay does
    what was recorded: the same kernels on the same numbers, the GPU's generator moved on by as much. So the bits are
    those of plain steps, and when a recording fails the rest is plain.
    """

    def __init__(
        self,
        network: nn.Module,
        samples: Resident,
        y: torch.Tensor,
        recipe: Recipe,
        masks: Mapping[str, torch.Tensor],
        planned: Counter[int],
        *,
        record: bool,
    ) -> None:
        self._network, self._samples, self._y, self._recipe = network, samples, y, recipe
        self._planned, self._record = planned, record
        self._rates = torch.tensor(rates(recipe, planned.total()), dtype=torch.float32).to(y.device)
        self._lr = self._rates[0].clone()
        self._optimizer = on_device(recipe, network, self._lr)
        self._parameters = [p for p in network.parameters() if p.requires_grad]
        named = dict(network.named_parameters())
        self._masked = [(named[name], ~mask) for name, mask in masks.items() if name in named]
        self._done = 0
        self._met: set[int] = set()
        self._recordings: dict[int, _Recording] = {}
        self._last: _Recording | None = None

    def epoch(self, order: torch.Tensor, cuts: Sequence[Cut]) -> None:
        """Visit every sample once: a batch of a size that was recorded is replayed as a graph."""
        gpu = self._y.is_cuda
        order = (order.pin_memory() if gpu else order).to(self._y.device, non_blocking=gpu)
        for start, stop in cuts:
            self._step(order[start:stop])

    def _step(self, chosen: torch.Tensor) -> None:
        self._lr.copy_(self._rates[self._done])
        self._done += 1
        size = len(chosen)
        if self._record and size in self._met and size not in self._recordings and self._planned[size] >= WORTH:
            self._record_step(size)
        self._last = self._recordings.get(size)
        if self._last is None:
            self._learn(chosen)
            self._met.add(size)
        else:
            self._last.chosen.copy_(chosen)
            self._last.graph.replay()

    def _learn(self, chosen: torch.Tensor) -> None:
        x = self._samples.batch(chosen, augmented=self._recipe.augmentation == "crop-flip")
        self._optimizer.zero_grad(set_to_none=True)
        y = self._y.index_select(0, chosen)
        loss_of(self._network, x, y, self._recipe).backward()
        self._optimizer.step()
        with torch.no_grad():
            for parameter, masked in self._masked:
                parameter.masked_fill_(masked, 0.0)

    def _record_step(self, size: int) -> None:
        graph = torch.cuda.CUDAGraph()
        chosen = torch.zeros(size, dtype=torch.int64, device=self._y.device)
        pool = next((recording.graph.pool() for recording in self._recordings.values()), None)
        generator = torch.cuda.default_generators[self._y.device.index]
        spare = generator.clone_state()
        try:
            with torch.cuda.graph(graph, pool=pool, stream=torch.cuda.current_stream()):
                self._learn(chosen)
        except RuntimeError:  # something that cannot be recorded, and did not show on the copy
            self._record = False
            generator.graphsafe_set_state(spare)  # the old state would wait for the end of the recording for ever
            return
        self._recordings[size] = _Recording(graph, chosen, [p.grad for p in self._parameters])

    def settle(self) -> None:
        """Copy the gradients of the last batch to where a pruner looks for them."""
        if self._last is not None:
            for parameter, gradient in zip(self._parameters, self._last.gradients, strict=True):
                parameter.grad = gradient
