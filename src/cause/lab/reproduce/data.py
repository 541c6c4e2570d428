"""The data sets of a reproduction: the paper's if they are available, else scikit-learn's digits."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.loading import ROOT, find, load
from cause.errors import InputError
from cause.lab import digits

PAPER_SETS = ("cifar10", "svhn", "cifar100")


@dataclass(frozen=True, eq=False)
class Split:
    """A data set: training samples and test samples."""

    name: str
    x: NDArray[Any]
    y: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]
    classes: int
    shape: tuple[int, ...]
    brightest: float

    def tests(self, most: int | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return `most` test samples, always the same; all of them for None."""
        if most is None or most >= len(self.y_test):
            return self.x_test, self.y_test
        chosen = np.sort(np.random.default_rng(0).permutation(len(self.y_test))[:most])
        return self.x_test[chosen], self.y_test[chosen]


def load_split(name: str, root: str | None) -> Split:
    """Return a data set by name; `digits32` are the digits enlarged to the size of the paper's images."""
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
    """Return the data sets of a quick run: those of the paper that are in the folder; without a folder, the digits."""
    where = root or os.environ.get(ROOT)
    if not where:
        return ("digits",)
    if not Path(where).is_dir():
        raise InputError(f"--data: {where!r} is not a folder (or CAUSE_DATA names none)")
    names = []
    for name in PAPER_SETS:
        try:
            find(name, root=where)
        except InputError:
            continue
        names.append(name)
    if not names:
        raise InputError(f"--data: none of {', '.join(PAPER_SETS)} is in {where!r}; leave it out to take the digits")
    return tuple(names)


def check_there(names: set[str], root: str | None) -> None:
    """Raise an `InputError` if a data set is missing."""
    for name in sorted(names - {"digits", "digits32"}):
        try:
            find(name, root=root)
        except InputError as error:
            raise InputError(f"--data: {error}") from None
