"""VGG-16 with batch normalisation for small images (Simonyan and Zisserman, 2015)."""

from torch import nn

STAGES = ((1, 1), (2, 2), (4, 4, 4), (8, 8, 8), (8, 8, 8))  # in widths of the first; a pooling after each


def vgg16(classes: int, shape: tuple[int, ...], width: int = 64) -> nn.Module:
    """VGG-16, one linear layer at the end: 14.7 M parameters at 32×32×3."""
    layers: list[nn.Module] = []
    inputs = shape[0]
    for stage in STAGES:
        for factor in stage:
            outputs = width * factor
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            inputs = outputs
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
