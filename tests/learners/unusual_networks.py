"""Networks whose code or form a pruner cannot follow: branches on the data, scripts, odd answers, nothing to train."""

import warnings

import torch
from torch import nn

Shape = tuple[int, ...]


class Branching(nn.Module):
    """Runs through one of two layers. `chooses` says which, from a batch."""

    def __init__(self, classes: int, shape: Shape) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(shape[0], 32), nn.Linear(shape[0], 32)
        self.last = nn.Linear(32, classes)
        self.first: nn.Module = nn.Identity()

    def chooses(self, x: torch.Tensor) -> bool:
        return bool(x.sum() > 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        branch = self.one if self.chooses(x) else self.other
        return self.last(torch.relu(branch(self.first(x))))


class BySize(Branching):
    def chooses(self, x):
        return bool(x.abs().max() > 10)


class ByMode(Branching):
    def chooses(self, x):
        return self.training


class ByAnAttribute(Branching):
    """Takes the other layer for inputs that nothing but a sample has."""

    def chooses(self, x):
        return bool((x == 41.5).any())


class BesidePruned(Branching):
    """The layers before the branch can be pruned."""

    def __init__(self, classes: int, shape: Shape) -> None:
        super().__init__(classes, (16,))
        self.first = nn.Sequential(nn.Linear(shape[0], 64), nn.ReLU(), nn.Linear(64, 16))


def by_sign(classes: int, shape: Shape) -> nn.Module:
    return Branching(classes, shape)


def by_size(classes: int, shape: Shape) -> nn.Module:
    return BySize(classes, shape)


def by_mode(classes: int, shape: Shape) -> nn.Module:
    return ByMode(classes, shape)


def by_an_attribute(classes: int, shape: Shape) -> nn.Module:
    return ByAnAttribute(classes, shape)


def beside_pruned(classes: int, shape: Shape) -> nn.Module:
    return BesidePruned(classes, shape)


def plain(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 32), nn.ReLU(), nn.Linear(32, classes))


def script(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(module)


def scripted(classes: int, shape: Shape) -> nn.Module:
    return script(plain(classes, shape))


def holds_a_script(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(script(nn.Linear(shape[0], 32)), nn.ReLU(), nn.Linear(32, classes))


class Pair(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x), x


class Table(Pair):
    def forward(self, x):
        return {"logits": self.network(x)}


def pair(classes: int, shape: Shape) -> nn.Module:
    return Pair(plain(classes, shape))


def table(classes: int, shape: Shape) -> nn.Module:
    return Table(plain(classes, shape))


def frozen(classes: int, shape: Shape) -> nn.Module:
    return plain(classes, shape).requires_grad_(False)


def without_weights(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, shape[0])), nn.AdaptiveAvgPool1d(classes), nn.Flatten())


def nothing_to_mask(classes: int, shape: Shape) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, shape[0])), nn.Conv1d(1, classes, shape[0]), nn.Flatten())
