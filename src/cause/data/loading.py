"""Loading a data set by name or path, in any of the official formats."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cause.data import folder, idx, mosaic, npz, svhn, table
from cause.data.cifar import CIFAR10, CIFAR100, is_pickled
from cause.data.dataset import Dataset, check_split, input_error
from cause.errors import InputError

ROOT = "CAUSE_DATA"


class Format(NamedTuple):
    """How a format is recognised and read."""

    matches: Callable[[Path], bool]
    read: Callable[[Path, str, int | None], Dataset]


# In the order in which they are tried. To add one, write a file and add a line here.
FORMATS = {
    "CIFAR-10 binary": Format(CIFAR10.matches, CIFAR10.read),
    "CIFAR-100 binary": Format(CIFAR100.matches, CIFAR100.read),
    "SVHN cropped": Format(svhn.matches, svhn.read),
    "idx": Format(idx.matches, idx.read),
    "npz": Format(npz.matches, npz.read),
    "mosaics in npz": Format(mosaic.matches, mosaic.read),
    "CSV": Format(table.matches, lambda path, split, classes: table.read(path, split, classes)),
    "folders of pictures": Format(folder.matches, lambda path, split, classes: folder.read(path, split, classes)),
}


class Known(NamedTuple):
    """A data set that can be loaded by its name."""

    classes: int
    counts: dict[str, int]
    """Images of each split: reveals a file that was cut off between two images."""
    places: tuple[str, ...]
    """Paths below the root; the first that exists is read."""


KNOWN = {
    "cifar10": Known(
        10,
        {"train": 50_000, "test": 10_000},
        (CIFAR10.folder, CIFAR10.archive, "cifar10", "cifar10.npz", "cifar10_part1.npz"),
    ),
    "cifar100": Known(
        100,
        {"train": 50_000, "test": 10_000},
        (CIFAR100.folder, CIFAR100.archive, "cifar100", "cifar100.npz", "cifar100_part1.npz"),
    ),
    "svhn": Known(10, {"train": 73_257, "test": 26_032}, ("svhn", "SVHN", "svhn.npz", "svhn_part1.npz", ".")),
    "mnist": Known(10, {"train": 60_000, "test": 10_000}, ("mnist", "MNIST/raw", "MNIST", "mnist.npz")),
    "fashion-mnist": Known(
        10,
        {"train": 60_000, "test": 10_000},
        ("fashion-mnist", "FashionMNIST/raw", "fashion_mnist", "fashion-mnist.npz"),
    ),
}


def load(
    name: str | Path, split: str = "train", *, root: str | Path | None = None, classes: int | None = None
) -> Dataset:
    """Load a split of a data set.

    Parameters
    ----------
    name
        cifar10, cifar100, svhn, mnist or fashion-mnist, or a path to a file or folder.
    split
        "train" or "test".
    root
        The folder with the named data sets; without it, the environment variable CAUSE_DATA names it.
    classes
        The number of classes of a data set that is given by its path. By default it is one more than the highest label
        of the split: give it where a class may be missing from the data.

    Raises
    ------
    InputError
        If there is no such data set, or it is damaged or incomplete.
    """
    check_split(split)
    path = find(name, root=root)
    named = KNOWN.get(str(name))
    if named is None:
        return _format_of(path).read(path, split, classes)
    data = _format_of(path).read(path, split, named.classes)
    if data.classes != named.classes or len(data) != named.counts[split]:
        raise input_error(
            path, f"{len(data):,} images, but {name} has {named.counts[split]:,} for {split}: load it by its path"
        )
    return Dataset(data.x, data.y, named.classes, str(name), split, data.users)


def find(name: str | Path, *, root: str | Path | None = None) -> Path:
    """Return the path of a data set: the path itself, or for a name the first usual place below the root.

    Raises
    ------
    InputError
        If nothing is there, or no root is given.
    """
    if str(name) not in KNOWN:
        path = Path(name)
        if _exists(path):
            return path
        raise InputError(f"no data set {str(name)!r}: give one of {', '.join(KNOWN)}, or a path that exists")
    base = root if root is not None else os.environ.get(ROOT)
    if not base:
        raise InputError(f"where is {name}? Give the folder with the data sets as root, or in {ROOT}")
    places = KNOWN[str(name)].places
    for place in places:
        path = Path(base) / place
        if _exists(path) and (place != "." or svhn.matches(path)):
            return path
    pickled = ", ".join(path.name for path in Path(base).glob("cifar*") if is_pickled(path))
    hint = f" ({pickled} is a pickle and is not read)" if pickled and str(name).startswith("cifar") else ""
    raise InputError(f"no {name} in {str(base)!r}: put {places[0]!r} or {places[1]!r} there{hint}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _format_of(path: Path) -> Format:
    for format_ in FORMATS.values():
        if format_.matches(path):
            return format_
    if is_pickled(path):
        raise input_error(path, "the python version of CIFAR is a pickle and is not read: take the binary version")
    raise input_error(path, f"none of the known formats: {', '.join(FORMATS)}")
