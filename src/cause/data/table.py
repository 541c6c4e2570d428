"""CSV files with a header: a column of labels, perhaps one of users, and columns of numbers."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cause.data import files
from cause.data.dataset import Dataset, check_split, class_count, input_error, labels_of

MOST_TABLE_BYTES = 2**30
SUFFIX = ".csv"


def matches(path: Path) -> bool:
    """Return whether the path is a CSV file, or a folder with one for a split."""
    if path.is_dir():
        return any((path / f"{split}{SUFFIX}").is_file() for split in ("train", "test"))
    return path.is_file() and path.name.lower().removesuffix(".gz").endswith(SUFFIX)


def read(
    path: Path,
    split: str = "train",
    classes: int | None = None,
    *,
    label: str = "label",
    user: str = "user",
    features: Sequence[str] | None = None,
) -> Dataset:
    """Read `train.csv` or `test.csv` of a folder, or a file as the training split.

    Parameters
    ----------
    path
        The file or folder.
    split
        "train" or "test".
    classes
        The number of classes; by default one more than the highest label.
    label
        The column of labels.
    user
        The column of users; it may be missing.
    features
        The columns of features; by default all others. They become float32.

    Raises
    ------
    InputError
        If a column is missing or a line is wrong; it names the line.
    """
    check_split(split)
    file = path / f"{split}{SUFFIX}" if path.is_dir() else path
    if path.is_file() and split != "train":
        raise input_error(
            path, f"a single table is the train split: put {split}{SUFFIX!r} into a folder with train{SUFFIX!r}"
        )
    try:
        text = files.read(file, MOST_TABLE_BYTES).decode("utf-8-sig")
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = next(lines, [])
        if len(set(header)) < len(header):
            raise input_error(file, f"the column {next(c for c in header if header.count(c) > 1)!r} is there twice")
        if label not in header:
            raise input_error(
                file, f"there is no column {label!r} of labels: its first line is {','.join(header)[:60]!r}"
            )
        names = [name for name in header if name not in (label, user)] if features is None else list(features)
        unknown = [name for name in names if name not in header]
        if unknown or not names:
            raise input_error(
                file, f"there is no column {unknown[0]!r}" if unknown else "there is no column of numbers"
            )
        at = {name: column for column, name in enumerate(header)}
        columns = [at[name] for name in names]
        x, y, users = [], [], []
        for row in lines:
            if not row:
                continue
            if len(row) != len(header):
                raise input_error(f"{file}:{lines.line_num}", f"{len(row)} values, but {len(header)} columns")
            try:
                x.append(floats(row[column] for column in columns))
                y.append(int(without_underscore(row[at[label]])))
            except (ValueError, OverflowError):
                raise input_error(
                    f"{file}:{lines.line_num}", "numbers and a whole number as label are needed"
                ) from None
            if not (np.isfinite(x[-1]).all() and 0 <= y[-1] < 2**31):
                raise input_error(f"{file}:{lines.line_num}", "numbers must be finite and a label from 0")
            users.append(row[at[user]] if user in at else "")
    except UnicodeDecodeError:
        raise input_error(file, "not text in UTF-8") from None
    except csv.Error as error:
        raise input_error(file, f"not a table: {error}") from None
    if not x:
        raise input_error(file, "there are no rows below the header")
    labels = labels_of(np.array(y, dtype=np.int64), file)
    name = path.name.removesuffix(".gz").removesuffix(SUFFIX)
    owners = np.array(users) if user in at else None
    return Dataset(np.stack(x), labels, class_count(labels, classes), name, split, owners, file)


def floats(texts: Iterable[str]) -> NDArray[np.float32]:
    """Return a row of numbers. One that is too large for float32 becomes infinite, and is refused as such later."""
    with np.errstate(over="ignore"):
        return np.array([without_underscore(text) for text in texts], dtype=np.float32)


def without_underscore(text: str) -> str:
    """Return the text of a number; a `ValueError` if it has an underscore, which Python would ignore: 1_0 is no 10."""
    if "_" in text:
        raise ValueError(f"a number has no underscore: {text!r}")
    return text
