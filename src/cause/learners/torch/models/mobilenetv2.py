"""MobileNetV2 for small images (Sandler et al., 2018): the first strides are 1, as images are 32 pixels wide."""

import torch
from torch import nn

from cause.learners.torch.models.depthwise import Depthwise

SETTINGS = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, outputs, blocks, stride of the first."""


def _conv(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow; a shortcut where shapes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        widen = [*_conv(inputs, hidden, 1), nn.ReLU6()] if expansion > 1 else []
        filter_ = [Depthwise(hidden, 3, stride), nn.BatchNorm2d(hidden), nn.ReLU6()]
        self.body = nn.Sequential(*widen, *filter_, *_conv(hidden, outputs, 1))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(x)
        return x + out if self.residual else out


def mobilenetv2(classes: int, shape: tuple[int, ...], width: float = 1.0) -> nn.Module:
    """MobileNetV2: 2.2 M parameters at 32×32×3."""

    def scaled(channels: int) -> int:
        return max(8, int(channels * width + 4) // 8 * 8)

    inputs = scaled(32)
    layers: list[nn.Module] = [*_conv(shape[0], inputs, 3), nn.ReLU6()]
    for expansion, channels, count, stride in SETTINGS:
        for block in range(count):
            outputs = scaled(channels)
            layers.append(InvertedResidual(inputs, outputs, stride if block == 0 else 1, expansion))
            inputs = outputs
    last = scaled(1280)
    layers += [*_conv(inputs, last, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, classes)]
    return nn.Sequential(*layers)
