"""Depthwise convolutions with few different batch sizes, since cuDNN takes seconds to prepare for a new one.

cuDNN prepares for each shape of a depthwise convolution, and segments end with a batch of any size. So on a card such a
batch is filled with zeros up to a power of two, and the result is cut: nothing else of the network sees the zeros.
"""

from typing import Any

import torch
from torch import nn

DEVICES = ("cuda",)
JIT: Any = torch.jit  # its types do not know all of it
LEAST = 32
"""Filling up to here costs a card next to nothing."""


def whole(count: int) -> int:
    """Return the size to which a batch is padded: a power of two; 1 stays 1, since single predictions are frequent.

    >>> [whole(count) for count in (0, 1, 2, 33, 64, 65)]
    [0, 1, 32, 64, 64, 128]
    """
    return count if count <= 1 else max(LEAST, 1 << (count - 1).bit_length())


def is_filled(network: nn.Module, device: torch.device) -> bool:
    """Return whether a network has convolutions whose batches are padded on this device."""
    return device.type in DEVICES and any(isinstance(module, Depthwise) for module in network.modules())


class Depthwise(nn.Conv2d):
    """A convolution of each channel by itself, without bias."""

    def __init__(self, channels: int, kernel: int, stride: int = 1) -> None:
        super().__init__(channels, channels, kernel, stride, kernel // 2, groups=channels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if _is_traced(x) or x.dim() != 4 or x.device.type not in DEVICES:
            return super().forward(x)
        lacking = whole(len(x)) - len(x)
        if not lacking:
            return super().forward(x)
        return super().forward(nn.functional.pad(x, (0, 0, 0, 0, 0, 0, 0, lacking)))[: len(x)]


def _is_traced(x: torch.Tensor) -> bool:
    """Return whether this thread is tracing or exporting the network, for batches of any size."""
    return type(x) is not torch.Tensor or torch.compiler.is_dynamo_compiling() or JIT.is_tracing()
