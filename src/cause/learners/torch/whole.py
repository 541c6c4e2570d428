"""Grouped convolutions that meet few sizes of batches: a card stands still for seconds when it first meets one.

cuDNN prepares for each shape of a depthwise convolution, and segments end with a batch of any size. So such a batch is
filled with zeros up to a size that comes often, right before the convolution, and cut right after it: nothing else of
the network sees the zeros, and no module is changed.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

DEVICES = ("cuda",)
LEAST = 32
"""Filling up to here costs a card next to nothing."""


def whole(count: int, most: int) -> int:
    """The size that a batch is filled up to: a power of two, and no more than the largest that is usual.

    One is a size that comes often, too: single predictions, and networks that make channels of their samples.

    >>> [whole(count, most=100) for count in (1, 2, 33, 65, 100, 101)]
    [1, 32, 64, 100, 100, 101]
    """
    return count if count <= 1 or count >= most else min(most, max(LEAST, 1 << (count - 1).bit_length()))


def is_filled(network: nn.Module, device: torch.device) -> bool:
    """Has it convolutions whose batches are filled up there?"""
    return device.type in DEVICES and any(isinstance(m, nn.Conv2d) and m.groups > 1 for m in network.modules())


def filling(network: nn.Module, device: torch.device, most: int) -> AbstractContextManager[object]:
    """In it, the network's grouped convolutions meet whole batches. It holds for the thread that entered it."""
    return _Filling(most) if is_filled(network, device) else nullcontext()


class _Filling(TorchFunctionMode):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func is not torch.conv2d or len(args) < 2:
            return func(*args, **named)
        x, weight, *rest = args
        if x.dim() != 4 or weight.shape[1] == x.shape[1]:  # a single picture, or all channels in one group
            return func(*args, **named)
        count = len(x)
        lacking = whole(count, self._most) - count
        if not lacking or torch.compiler.is_compiling() or _is_computed_again():
            return func(*args, **named)
        filled = nn.functional.pad(x, (0, 0, 0, 0, 0, 0, 0, lacking))
        return func(filled, weight, *rest, **named)[:count]


def _is_computed_again() -> bool:
    """Does the caller compute this part once more on the way back? There, where nothing is filled, sizes must agree."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.utils.checkpoint":
            return True
        frame = frame.f_back
    return False
