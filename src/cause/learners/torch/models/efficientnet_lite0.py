"""EfficientNet-Lite0 (Tan & Le, 2019, without squeeze and excitation); tensors have the names of the published ones."""

import torch
from torch import nn
from torch.nn import functional

from cause.errors import InputError
from cause.learners.torch.models.depthwise import Depthwise

BLOCKS = (
    # repeats, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
FEATURES = 1_280
MOST_PIXELS = 1_024


def _padded(x: torch.Tensor, kernel: int, stride: int) -> torch.Tensor:
    """Pad as TensorFlow's "same" does: more at the end than at the start."""
    pads: list[int] = []
    for axis in (3, 2):
        side = int(x.shape[axis])
        needed = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        pads += [needed // 2, needed - needed // 2]
    return functional.pad(x, pads) if any(pads) else x


class SameConv(nn.Conv2d):
    """A convolution without bias whose input is padded as TensorFlow does."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__(inputs, outputs, kernel, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(_padded(x, self.kernel_size[0], self.stride[0]))


class SameDepthwise(Depthwise):
    """A convolution of each channel by itself whose input is padded as TensorFlow does."""

    def __init__(self, channels: int, kernel: int, stride: int) -> None:
        super().__init__(channels, kernel, stride)
        self.padding = (0, 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(_padded(x, self.kernel_size[0], self.stride[0]))


class Block(nn.Module):
    """Widen, filter each channel, narrow; a shortcut where shapes allow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        if expansion != 1:
            self._expand_conv, self._bn0 = nn.Conv2d(inputs, wide, 1, bias=False), _norm(wide)
        self._depthwise_conv, self._bn1 = SameDepthwise(wide, kernel, stride), _norm(wide)
        self._project_conv, self._bn2 = nn.Conv2d(wide, outputs, 1, bias=False), _norm(outputs)
        self._skips = stride == 1 and inputs == outputs

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        x = inputs
        if hasattr(self, "_expand_conv"):
            x = functional.relu6(self._bn0(self._expand_conv(x)))
        x = functional.relu6(self._bn1(self._depthwise_conv(x)))
        out: torch.Tensor = self._bn2(self._project_conv(x))
        return out + inputs if self._skips else out


class EfficientNetLite0(nn.Module):
    """The network: 1,280 features from 0 to 6, and a linear layer for the classes.

    Parameters
    ----------
    classes
        The number of classes; None for a network that returns the features.
    size
        The side to which pictures are scaled first; None leaves them as they are.
    """

    def __init__(self, classes: int | None, size: int | None = None) -> None:
        super().__init__()
        self._size = size
        self._conv_stem, self._bn0 = SameConv(3, 32, 3, 2), _norm(32)
        self._blocks, channels = nn.ModuleList(), 32
        for repeats, kernel, stride, expansion, outputs in BLOCKS:
            for number in range(repeats):
                self._blocks.append(Block(channels, outputs, kernel, stride if number == 0 else 1, expansion))
                channels = outputs
        self._conv_head, self._bn1 = nn.Conv2d(channels, FEATURES, 1, bias=False), _norm(FEATURES)
        if classes is not None:
            self._fc = nn.Linear(FEATURES, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._size is not None and tuple(x.shape[2:]) != (self._size, self._size):
            x = functional.interpolate(x, (self._size, self._size), mode="bilinear", align_corners=False)
        x = functional.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        features: torch.Tensor = functional.relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))
        return self._fc(features) if hasattr(self, "_fc") else features


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def efficientnet_lite0(classes: int, shape: tuple[int, ...], size: int = 0) -> nn.Module:
    """EfficientNet-Lite0: 3.4 M parameters with ten classes; `size` is the side to which pictures are scaled first.

    It is meant for public weights (`Recipe(init=…)`) and pictures of 96 to 224 pixels: pixels of 0 to 255 are scaled by
    mean=127, std=128.
    """
    if len(shape) != 3 or shape[0] != 3:
        raise InputError(f"EfficientNet-Lite0 takes pictures of three channels, as (3, 32, 32), not {shape}")
    if not 0 <= size <= MOST_PIXELS:
        raise InputError(f"EfficientNet-Lite0 scales pictures to at most {MOST_PIXELS:,} pixels, not size={size}")
    return EfficientNetLite0(classes, int(size) or None)
