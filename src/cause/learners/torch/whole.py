"""Grouped convolutions that meet few sizes of batches: on a card each new size is compiled for, for seconds.

cuDNN compiles kernels for depthwise convolutions when it first meets a shape. Segments end with a batch of any size, so
that almost every retraining would wait. Batches of such convolutions are filled with zeros up to a size that comes
often; what becomes of the zeros is cut off again, and nothing else of the network sees them.
"""

from collections.abc import Callable

import torch
from torch import nn

Whole = Callable[[int], int]
LEAST = 64
"""Inputs of a small prediction: filling up to here costs a card nothing."""


def multiples(size: int) -> Whole:
    """Up to whole batches of a size: for training.

    >>> [multiples(128)(count) for count in (1, 128, 129)]
    [128, 128, 256]
    """
    return lambda count: -(-count // size) * size


def doublings(count: int) -> int:
    """Up to a power of two: for predictions, of which there may be any number.

    >>> [doublings(count) for count in (1, 65, 4096)]
    [64, 128, 4096]
    """
    return max(LEAST, 1 << (count - 1).bit_length())


def grouped(network: nn.Module) -> list[nn.modules.conv._ConvNd]:
    """Its convolutions whose channels lie in groups."""
    return [m for m in network.modules() if isinstance(m, nn.modules.conv._ConvNd) and m.groups > 1]


def fill(network: nn.Module, whole: Whole) -> None:
    """From now on, let its grouped convolutions see batches that are whole."""
    for module in grouped(network):
        if not isinstance(module, _Filled):
            module.__class__ = _filled(type(module))
        module.whole = whole  # type: ignore[assignment]  # not a tensor, not a module: a plain attribute


class _Filled(nn.modules.conv._ConvNd):
    """Put before a class of convolutions. It keeps nothing of a batch: several threads may use the network."""

    whole: Whole

    def forward(self, x: torch.Tensor, *rest: object) -> torch.Tensor:
        count, dimensions = len(x), self.weight.dim()
        lacking = self.whole(count) - count if x.dim() == dimensions else 0  # without a batch there is none to fill
        if not lacking:
            return super().forward(x, *rest)  # type: ignore[no-any-return]
        filled = nn.functional.pad(x, (0, 0) * (dimensions - 1) + (0, lacking))
        return super().forward(filled, *rest)[:count]  # type: ignore[no-any-return]


_KINDS: dict[type, type[_Filled]] = {}


def _filled(kind: type) -> type[_Filled]:
    if kind not in _KINDS:
        _KINDS[kind] = type(kind.__name__, (_Filled, kind), {})
    return _KINDS[kind]
