"""The network and the loss of the training scripts that the paper's authors published.

Everything here follows their scripts for ResNet on CIFAR-10, also where it is a fault: the network ends in a softmax,
and the loss applies another one. `cause reproduce shards --recipe authors` trains with it.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from cause.learners.torch.models import factory

BLOCKS = (3, 4, 6, 3)


def softmax_twice(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of outputs that went through a softmax, as if they were logits.

    Probabilities lie between 0 and 1, so the second softmax is almost flat: with ten classes the loss cannot fall
    below 1.46, and gradients are small where the network is sure.

    Parameters
    ----------
    outputs
        The logits of a batch: one row a sample, one column a class.
    labels
        The class of each sample.

    Returns
    -------
    torch.Tensor
        The mean loss of the batch.

    Examples
    --------
    >>> sure = torch.eye(10) * 100
    >>> round(float(softmax_twice(sure, torch.arange(10))), 2)
    1.46
    """
    return nn.functional.cross_entropy(torch.softmax(outputs.float(), dim=1), labels)


class Bottleneck(nn.Module):
    """Convolutions of 1×1, 3×3 and 1×1 with biases, and a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int, projected: bool) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, stride), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outputs, 1), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if projected:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activations of the block."""
        return torch.relu(self.body(x) + self.shortcut(x))


def network(classes: int, shape: tuple[int, ...], width: int = 64) -> nn.Module:
    """Return what the authors' scripts call ResNet-34: ResNet-50's blocks behind a stem for large images.

    The stem halves height and width twice (7×7 convolution and pooling), so that of 32×32 pixels 7×7 places are left
    before the first block. `TorchLearner` adds no softmax when it trains; the loss of the scripts has both.

    Parameters
    ----------
    classes
        The number of classes.
    shape
        Channels, height and width of an input.
    width
        Channels after the stem.

    Returns
    -------
    nn.Module
        The network, with 23.6 million parameters for 10 classes at the usual width.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(shape[0], width, 7, 2, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2),
    ]  # fmt: skip
    inputs = width
    for stage, count in enumerate(BLOCKS):
        for block in range(count):
            layers.append(Bottleneck(inputs, width * 2**stage, 2 if stage and not block else 1, projected=not block))
            inputs = 4 * width * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class HeadStart:
    """A factory whose networks start from given weights instead of random ones.

    Where these weights were trained on the users' samples, nothing that follows is exact: a sample that is forgotten
    has left its trace in the start of every shard.

    Parameters
    ----------
    model
        The name of the network.
    weights
        The state of a trained network of that name.
    """

    def __init__(self, model: str, weights: Mapping[str, torch.Tensor]) -> None:
        self._model, self._weights = model, dict(weights)

    def __call__(self, *args: Any, **options: Any) -> nn.Module:
        """Return a network with the given weights."""
        started: nn.Module = factory(self._model)(*args, **options)
        started.load_state_dict(self._weights)
        return started
