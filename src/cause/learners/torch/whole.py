"""Grouped convolutions that meet few sizes of batches: a card stands still for seconds when it first meets one.

cuDNN prepares for each shape of a depthwise convolution, and segments end with a batch of any size. So such a batch is
filled with zeros up to a size that comes often, right before the convolution, and cut right after it: nothing else of
the network sees the zeros, and no module is changed. It is done below autograd, which keeps and checks the samples
alone: a network may compute parts again on the way back.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

DEVICES = ("cuda",)
LEAST = 32
"""Filling up to here costs a card next to nothing."""


def whole(count: int, most: int) -> int:
    """The size that a batch is filled up to: a power of two, and no more than the largest that is usual.

    >>> [whole(count, most=100) for count in (1, 33, 65, 100, 101)]
    [32, 64, 100, 100, 101]
    """
    return count if count >= most else min(most, max(LEAST, 1 << (count - 1).bit_length()))


def is_filled(network: nn.Module, device: torch.device) -> bool:
    """Has it convolutions whose batches are filled up there?"""
    return device.type in DEVICES and any(isinstance(m, nn.Conv2d) and m.groups > 1 for m in network.modules())


def filling(network: nn.Module, batch: torch.Tensor, most: int) -> AbstractContextManager[object]:
    """In it, the network's grouped convolutions meet whole batches, forward and backward, in the thread that entered.

    It holds up every operation a little, so it is not entered for a batch that is whole.
    """
    is_whole = whole(len(batch), most) == len(batch)
    return nullcontext() if is_whole or not is_filled(network, batch.device) else _Filling(most)


class _Filling(TorchDispatchMode):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func is torch.ops.aten.convolution.default:
            x, *rest = args
            lacking = self._lacking(x, transposed=args[6], groups=args[8])
            if lacking:
                return func(_fill(x, lacking), *rest, **named)[: len(x)]
        elif func is torch.ops.aten.convolution_backward.default:
            slope, x, *rest = args
            lacking = self._lacking(x, transposed=args[7], groups=args[9])
            if lacking:
                of_x, *others = func(_fill(slope, lacking), _fill(x, lacking), *rest, **named)
                return (None if of_x is None else of_x[: len(x)], *others)
        return func(*args, **named)

    def _lacking(self, x: torch.Tensor, *, transposed: bool, groups: int) -> int:
        if x.dim() != 4 or groups == 1 or transposed:
            return 0
        return whole(len(x), self._most) - len(x)


def _fill(x: torch.Tensor, lacking: int) -> torch.Tensor:
    return nn.functional.pad(x, (0, 0, 0, 0, 0, 0, 0, lacking))
