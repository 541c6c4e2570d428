"""DenseNet-121 for small images (Huang et al., 2017): blocks 6-12-24-16, a 3×3 stem without pooling."""

import torch
from torch import nn

BLOCKS = (6, 12, 24, 16)


class DenseLayer(nn.Module):
    """Adds `growth` channels to what it was given."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv1(torch.relu(self.bn1(x)))
        return torch.cat([x, self.conv2(torch.relu(self.bn2(out)))], dim=1)


def densenet121(classes: int, shape: tuple[int, ...], growth: int = 32) -> nn.Module:
    """DenseNet-121: 7.0 M parameters at 32×32×3."""
    inputs = 2 * growth
    layers: list[nn.Module] = [nn.Conv2d(shape[0], inputs, 3, padding=1, bias=False)]
    for index, count in enumerate(BLOCKS):
        for _ in range(count):
            layers.append(DenseLayer(inputs, growth))
            inputs += growth
        if index < len(BLOCKS) - 1:
            layers += [nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, inputs // 2, 1, bias=False)]
            layers.append(nn.AvgPool2d(2, ceil_mode=True))
            inputs //= 2
    layers += [nn.BatchNorm2d(inputs), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
    return nn.Sequential(*layers)
