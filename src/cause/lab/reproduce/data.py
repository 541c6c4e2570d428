"""The data sets of a reproduction: the paper's where they are given, scikit-learn's digits where not."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.front import ROOT, find, load
from cause.errors import InputError
from cause.lab import digits

PAPER_SETS = ("cifar10", "svhn", "cifar100")


@dataclass(frozen=True, eq=False)
class Split:
    """A data set to learn, and what it is tested on."""

    name: str
    x: NDArray[Any]
    y: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]
    classes: int
    shape: tuple[int, ...]
    brightest: float

    def tests(self, most: int | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """So many test samples, always the same; all of them without a number."""
        if most is None or most >= len(self.y_test):
            return self.x_test, self.y_test
        chosen = np.sort(np.random.default_rng(0).permutation(len(self.y_test))[:most])
        return self.x_test[chosen], self.y_test[chosen]


def load_split(name: str, root: str | None) -> Split:
    """A data set by name; `digits32` are the digits blown up to the size of the paper's images."""
    if name in ("digits", "digits32"):
        x, y = digits.load_digits()
        shape: tuple[int, ...] = digits.SHAPE
        if name == "digits32":
            x, shape = np.repeat(np.repeat(x, 4, axis=1), 4, axis=2)[:, None].repeat(3, axis=1), (3, 32, 32)
        order = np.random.default_rng(0).permutation(len(y))
        test, train = order[: len(y) // 5], order[len(y) // 5 :]
        return Split(name, x[train], y[train], x[test], y[test], digits.CLASSES, shape, digits.BRIGHTEST)
    train_, test_ = load(name, "train", root=root), load(name, "test", root=root)
    height, width = train_.x.shape[1:3]
    shape = (train_.x.shape[3] if train_.x.ndim == 4 else 1, height, width)
    return Split(name, train_.x, train_.y, test_.x, test_.y, train_.classes, shape, 255.0)


def at_hand(root: str | None) -> tuple[str, ...]:
    """What a quick run can learn: the paper's data sets that are in the folder, or the digits."""
    where = root or os.environ.get(ROOT)
    if not where:
        return ("digits",)
    if not Path(where).is_dir():
        raise InputError(f"--data: {where!r} is not a folder (or CAUSE_DATA names none)")
    found = []
    for name in PAPER_SETS:
        try:
            find(name, root=where)
        except InputError:
            continue
        found.append(name)
    if not found:
        raise InputError(f"--data: none of {', '.join(PAPER_SETS)} is in {where!r}; leave it out to take the digits")
    return tuple(found)


def check_there(names: set[str], root: str | None) -> None:
    """Refuse to begin what lacks its data."""
    for name in sorted(names - {"digits", "digits32"}):
        try:
            find(name, root=root)
        except InputError as error:
            raise InputError(f"--data: {error}") from None
