"""A small convolutional network for grey images of 8×8 to 28×28."""

from torch import nn


def cnn(classes: int, shape: tuple[int, ...], width: int = 32) -> nn.Module:
    """Three convolutions and a linear layer: 0.1 M parameters."""
    layers: list[nn.Module] = []
    inputs = shape[0]
    for factor in (1, 2, 2):
        outputs = width * factor
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
