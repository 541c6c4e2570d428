"""Small members of the backbone families: the factories' own code and blocks, with fewer of them.

A training takes some milliseconds, so that every combination can be tried. The networks at their full depth are
compared with a clean room in `tests/learners/test_torch.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch import nn

from cause.learners.torch.models import densenet121 as dense
from cause.learners.torch.models import efficientnet_lite0 as efficient
from cause.learners.torch.models import mobilenetv2 as mobile
from cause.learners.torch.models import resnet34 as residual
from cause.learners.torch.models import vgg16 as plain

Shape = tuple[int, ...]


@contextmanager
def _shorter(module: ModuleType, table: str, value: Any) -> Iterator[None]:
    full = getattr(module, table)
    setattr(module, table, value)
    try:
        yield
    finally:
        setattr(module, table, full)


def resnet(classes: int, shape: Shape) -> nn.Module:
    """A residual block with a strided shortcut."""
    return residual.resnet(classes, shape[0], (0, 1), width=4)


def vgg(classes: int, shape: Shape) -> nn.Module:
    """Two convolutions in two stages."""
    with _shorter(plain, "STAGES", ((1,), (2,))):
        return plain.vgg16(classes, shape, width=4)


def mobilenet(classes: int, shape: Shape) -> nn.Module:
    """An inverted residual block that widens, with its shortcut."""
    with _shorter(mobile, "SETTINGS", ((2, 8, 1, 1),)):
        return mobile.mobilenetv2(classes, shape, width=0.01)


def densenet(classes: int, shape: Shape) -> nn.Module:
    """One dense block."""
    with _shorter(dense, "BLOCKS", (1,)):
        return dense.densenet121(classes, shape, growth=4)


def efficientnet(classes: int, shape: Shape) -> nn.Module:
    """A stem, a block with its shortcut and one that halves the picture, each padded as TensorFlow does."""
    blocks = efficient.Block(8, 8, 3, 1, 2), efficient.Block(8, 12, 5, 2, 2)
    stem = efficient.SameConv(shape[0], 8, 3, 1), nn.BatchNorm2d(8), nn.ReLU6()
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, classes))


def own(classes: int, shape: Shape) -> nn.Module:
    """What a user might bring: dropout draws from the global generator."""
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, classes))
