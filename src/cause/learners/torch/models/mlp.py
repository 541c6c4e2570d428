"""A multi-layer perceptron for tables."""

import math

from torch import nn


def mlp(classes: int, shape: tuple[int, ...], width: int = 64) -> nn.Module:
    """Two hidden layers."""
    layers = [nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, classes))
