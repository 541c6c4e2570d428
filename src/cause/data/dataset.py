"""`Dataset`, which every reader returns, and its checks."""

from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.errors import InputError

SPLITS = ("train", "test")
MOST_CLASSES = 1_000_000


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples of one split.

    Attributes
    ----------
    x
        Bytes or floats: grey images as (n, height, width), colour images as (n, height, width, 3), tables as
        (n, features).
    y
        Labels, from 0.
    classes
        The number of classes.
    name
        The name of the data set.
    split
        "train" or "test".
    users
        The user of each sample; None if the source does not name users.

    Raises
    ------
    InputError
        If the parts do not fit together.

    Examples
    --------
    >>> Dataset(np.zeros((3, 8, 8), np.uint8), np.array([0, 1, 1]), classes=2, name="tiny")
    Dataset(name='tiny', split='train', x=(3, 8, 8) uint8, classes=2)
    >>> Dataset(np.zeros((3, 8, 8), np.uint8), np.array([0, 1, 2]), classes=2, name="tiny")
    Traceback (most recent call last):
    cause.errors.InputError: 'tiny': row 2 has label 2, but there are 2 classes (from 0)
    """

    x: NDArray[Any]
    y: NDArray[np.int64]
    classes: int
    name: str
    split: str = "train"
    users: NDArray[np.str_] | None = None
    source: InitVar[object] = None  # the file that it was read from, for errors

    def __post_init__(self, source: object) -> None:
        check(self, self.name if source is None else source)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shape = f"{self.x.shape} {self.x.dtype}"
        return f"Dataset(name={self.name!r}, split={self.split!r}, x={shape}, classes={self.classes})"


def check(data: Dataset, source: object) -> None:
    """Raise an `InputError` that names `source` if the parts of a data set do not fit together."""
    x, y, users = data.x, data.y, data.users
    if x.dtype != np.uint8 and x.dtype.kind != "f":
        raise input_error(source, f"inputs must be bytes or floats, not {x.dtype}")
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y):
        raise input_error(source, f"inputs of shape {x.shape} and labels of shape {y.shape} do not fit")
    if not x.size:
        raise input_error(source, "there are no samples")
    if y.dtype != np.int64:
        raise input_error(source, f"labels must be int64, not {y.dtype}")
    if not 1 <= data.classes <= MOST_CLASSES:
        raise input_error(source, f"the number of classes must be from 1 to {MOST_CLASSES:,}, not {data.classes}")
    if users is not None and users.shape != y.shape:
        raise input_error(source, f"{len(y)} samples, but users of shape {users.shape}")
    wrong = np.flatnonzero((y < 0) | (y >= data.classes))
    if len(wrong):
        label = y[wrong[0]]
        raise input_error(
            source, f"{_row(wrong[0], users)} has label {label}, but there are {data.classes} classes (from 0)"
        )
    check_finite(x, source, users)


def check_finite(x: NDArray[Any], source: object, users: NDArray[np.str_] | None = None) -> None:
    """Raise an `InputError` if inputs are not finite; it names the first such row, and its user where one is given.

    >>> check_finite(np.array([[1.0], [np.nan]]), "a.npz", np.array(["ann", "bob"]))
    Traceback (most recent call last):
    cause.errors.InputError: 'a.npz': row 1 (user 'bob') holds nan: inputs must be finite
    """
    if x.dtype.kind != "f" or np.isfinite(x).all():
        return
    row = int(np.argmin(np.isfinite(x).reshape(len(x), -1).all(axis=1)))
    value = x[row][~np.isfinite(x[row])].flat[0]
    raise input_error(source, f"{_row(row, users)} holds {value}: inputs must be finite")


def _row(row: int, users: NDArray[np.str_] | None) -> str:
    return f"row {row}" if users is None else f"row {row} (user {str(users[row])!r})"


def input_error(source: object, problem: str) -> InputError:
    """Return an error of one line: the file (or other source), and what is wrong with it."""
    return InputError(f"{str(source)!r}: {problem}")


def labels_of(values: ArrayLike, source: object) -> NDArray[np.int64]:
    """Return labels as int64, whatever type they are stored in; raise an `InputError` unless all are whole and ≥ 0.

    Booleans are 0 and 1, as in Python.

    >>> labels_of(np.array([True, False]), "a.npz")
    array([1, 0])
    """
    labels = np.asarray(values)
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.reshape(-1)
    if labels.ndim != 1 or labels.dtype.kind not in "buif":
        raise input_error(source, f"labels must be a list of whole numbers, not {labels.dtype} of shape {labels.shape}")
    is_integer = np.isfinite(labels) & (labels == np.floor(labels)) if labels.dtype.kind == "f" else np.True_
    fits = np.broadcast_to(is_integer & (labels >= 0) & (labels < MOST_CLASSES), labels.shape)
    if not fits.all():
        row = int(np.argmin(fits))
        raise input_error(source, f"row {row} has label {labels[row]}: labels must be whole numbers from 0")
    return labels.astype(np.int64)


def class_count(labels: NDArray[np.int64], classes: int | None) -> int:
    """Return the number of classes: `classes`, or else one more than the highest label."""
    return classes if classes is not None else int(labels.max(initial=0)) + 1


def check_split(split: str) -> None:
    """Raise an `InputError` for an unknown split."""
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}: one of {', '.join(SPLITS)}")
