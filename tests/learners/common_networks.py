"""Networks that people bring along, each tiny: one for every kind of layer that a pruner may trip over.

`NETWORKS` says for each which inputs it takes and whether something of it can be pruned. The table in
`docs/networks.md` is made of it.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import parametrizations

CLASSES = 3
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Network:
    """A network of the list."""

    make: Callable[[int, Shape], nn.Module]
    shape: Shape
    pruned: bool
    """Whether some of it can be pruned; otherwise it is trained whole."""
    tokens: int = 0
    """If its inputs are integers: how many there are."""


class LastStep(nn.Module):
    """A recurrent layer, of which the last step is kept."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0][:, -1]


class Attention(nn.Module):
    """Self-attention over the steps, then their mean."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0].mean(dim=1)


class Mean(nn.Module):
    """The mean over the steps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=1)


class Steps(nn.Module):
    """Channels first: (samples, steps, channels) to (samples, channels, steps)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


def layer_norm(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(
        nn.Linear(shape[0], 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 16), nn.Linear(16, classes)
    )


def group_norm(classes: int, shape: Shape) -> nn.Module:
    body = [nn.Conv2d(shape[0], 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)]
    return nn.Sequential(*body, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))


def gru(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(LastStep(nn.GRU(shape[1], 16, batch_first=True)), nn.Linear(16, classes))


def lstm(classes: int, shape: Shape) -> nn.Module:
    recurrent = LastStep(nn.LSTM(shape[1], 16, batch_first=True))
    return nn.Sequential(recurrent, nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, classes))


def transformer(classes: int, shape: Shape) -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=64, dropout=0.1, batch_first=True)
    return nn.Sequential(nn.Linear(shape[1], 16), nn.TransformerEncoder(layer, 1), Mean(), nn.Linear(16, classes))


def attention(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[1], 16), Attention(16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, classes))


def conv1d(classes: int, shape: Shape) -> nn.Module:
    body = [nn.Conv1d(shape[0], 16, 3, padding=1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 16, 3, padding=1)]
    return nn.Sequential(*body, nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, classes))


def conv1d_only(classes: int, shape: Shape) -> nn.Module:
    """Without a linear layer: a convolution answers."""
    body = [nn.Conv1d(shape[0], 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, classes, 1)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool1d(1), nn.Flatten())


def depthwise(classes: int, shape: Shape) -> nn.Module:
    body = [nn.Conv2d(shape[0], 16, 1), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*body, nn.Conv2d(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))


def depthwise1d(classes: int, shape: Shape) -> nn.Module:
    body = [nn.Conv1d(shape[0], 16, 1), nn.Conv1d(16, 32, 3, padding=1, groups=16), nn.ReLU(), nn.Conv1d(32, 16, 1)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, classes))


def grouped(classes: int, shape: Shape) -> nn.Module:
    body = [nn.Conv2d(shape[0], 16, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))


def weight_norm(classes: int, shape: Shape) -> nn.Module:
    normed = parametrizations.weight_norm(nn.Linear(shape[0], 32))
    return nn.Sequential(normed, nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, classes))


def spectral_norm(classes: int, shape: Shape) -> nn.Module:
    normed = parametrizations.spectral_norm(nn.Linear(shape[0], 32))
    return nn.Sequential(normed, nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, classes))


def old_weight_norm(classes: int, shape: Shape) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather have the new form
        normed = nn.utils.weight_norm(nn.Linear(shape[0], 32))
    return nn.Sequential(normed, nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, classes))


def old_spectral_norm(classes: int, shape: Shape) -> nn.Module:
    normed = nn.utils.spectral_norm(nn.Linear(shape[0], 32))
    return nn.Sequential(normed, nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, classes))


def embedding(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(nn.Embedding(20, 16), Mean(), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, classes))


def embedding_gru(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(nn.Embedding(20, 16), LastStep(nn.GRU(16, 16, batch_first=True)), nn.Linear(16, classes))


def instance_norm(classes: int, shape: Shape) -> nn.Module:
    body = [nn.Conv2d(shape[0], 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True), nn.ReLU()]
    return nn.Sequential(*body, nn.Conv2d(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))


def transposed(classes: int, shape: Shape) -> nn.Module:
    body = [nn.Conv2d(shape[0], 16, 3, stride=2), nn.ReLU(), nn.ConvTranspose2d(16, 16, 2), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))


def linear(classes: int, shape: Shape) -> nn.Module:
    """Nothing to prune: its only layer answers."""
    return nn.Linear(shape[0], classes)


NETWORKS = {
    "LayerNorm": Network(layer_norm, (12,), True),
    "GroupNorm": Network(group_norm, (1, 6, 6), True),
    "InstanceNorm": Network(instance_norm, (1, 6, 6), True),
    "GRU": Network(gru, (5, 4), False),
    "LSTM": Network(lstm, (5, 4), True),
    "TransformerEncoder": Network(transformer, (5, 4), True),
    "MultiheadAttention": Network(attention, (5, 4), True),
    "Conv1d": Network(conv1d, (2, 10), True),
    "Conv1d that answers": Network(conv1d_only, (2, 10), True),
    "depthwise Conv2d": Network(depthwise, (1, 6, 6), True),
    "depthwise Conv1d": Network(depthwise1d, (2, 10), True),
    "grouped Conv2d": Network(grouped, (1, 6, 6), False),
    "ConvTranspose2d": Network(transposed, (1, 6, 6), True),
    "weight norm": Network(weight_norm, (12,), True),
    "spectral norm": Network(spectral_norm, (12,), True),
    "weight norm, old form": Network(old_weight_norm, (12,), True),
    "spectral norm, old form": Network(old_spectral_norm, (12,), True),
    "Embedding": Network(embedding, (6,), True, tokens=20),
    "Embedding and GRU": Network(embedding_gru, (6,), False, tokens=20),
    "linear model": Network(linear, (12,), False),
}
