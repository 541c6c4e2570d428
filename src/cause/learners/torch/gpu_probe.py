"""Tries out, on a copy of a network, which faster ways of training on a GPU it supports."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from cause.learners.recipe import Recipe
from cause.learners.torch.isolation import host_generators
from cause.learners.torch.losses import computing, loss_of


@dataclass(frozen=True)
class Habits:
    """The faster ways of training that a network supports: a property of its code, not of the data."""

    channels_last: bool = False
    """Its images may lie in memory with their channels last."""
    recordable: bool = False
    """Its steps may be recorded once and replayed: it neither waits for the GPU nor decides or draws on the host."""

    @property
    def layout(self) -> torch.memory_format:
        """The memory layout of batches and weights."""
        return torch.channels_last if self.channels_last else torch.contiguous_format


def habits_of(network: nn.Module, x: torch.Tensor, y: torch.Tensor, recipe: Recipe) -> Habits:
    """Try a copy of a network on a few samples, and return what it supports; generators stay as they are.

    Parameters
    ----------
    network
        The network; a copy of it is tried.
    x, y
        A few samples.
    recipe
        Says how it is trained.
    """
    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        try:
            twin = copy.deepcopy(network)
            layout = lay_out(copy.deepcopy(network), x, recipe)
            set_layout(twin, layout)
            recordable = _recordable(twin, x.contiguous(memory_format=layout), y, recipe)
            return Habits(layout is torch.channels_last, recordable)
        except Exception:  # a user's module may raise anything; if it is broken, training will say so
            return Habits()


def lay_out(network: nn.Module, x: torch.Tensor, recipe: Recipe) -> torch.memory_format:
    """Give a network the fastest memory layout with which it runs, and return the layout."""
    # without matrix units, which fp32 does not use, the usual layout is the faster one
    if x.dim() == 4 and recipe.compute != "fp32":
        set_layout(network, torch.channels_last)
        try:
            with torch.no_grad(), computing(x.device, recipe.compute):
                network(x.contiguous(memory_format=torch.channels_last))
            return torch.channels_last
        except RuntimeError:
            set_layout(network, torch.contiguous_format)
    return torch.contiguous_format


def set_layout(network: nn.Module, layout: torch.memory_format) -> None:
    """Give the weights of a network a memory layout, in place."""
    module: Any = network  # torch's types do not know this argument
    module.to(memory_format=layout)


def _recordable(twin: nn.Module, x: torch.Tensor, y: torch.Tensor, recipe: Recipe) -> bool:
    generators, notes = host_generators(), _notes(twin)
    try:
        with _no_waiting(x.device):
            for _ in range(2):
                loss_of(twin, x, y, recipe).backward()
    except RuntimeError:
        return False
    return host_generators() == generators and _notes(twin) == notes


@contextmanager
def _no_waiting(device: torch.device) -> Iterator[None]:
    """Let everything raise that makes the host wait for the GPU."""
    if device.type != "cuda":
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # torch says that it does not find all of them
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _notes(network: nn.Module) -> dict[tuple[str, str], Any]:
    """Return what modules write down on the host: a counter there would stand still in a recording."""
    return {
        (path, name): value
        for path, module in network.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, bool | int | float | str | None)
    }
