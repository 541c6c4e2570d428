"""Reading files as one round of uploads, by user. The number of classes comes from the device, never from the data."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.names import fold, normal_name
from cause.common.units import format_bytes
from cause.data import files, folder, npz, table
from cause.data.dataset import Dataset, check_finite, input_error
from cause.data.loading import load
from cause.data.pictures import SUFFIXES, decode
from cause.data.zipped import Arrays, is_zip
from cause.errors import InputError

Uploads = dict[str, tuple[NDArray[Any], NDArray[np.int64]]]


@dataclass(frozen=True)
class Rows:
    """The user of each row of a file, in the order of the file; of a folder, in the order of the pictures' paths."""

    path: Path
    owners: list[str]


def labelled(path: Path, classes: int, *, split: str = "train", class_names: Sequence[str] | None = None) -> Dataset:
    """Read one file or folder with labels.

    Parameters
    ----------
    path
        A file or folder in one of the formats of `load`.
    classes
        The number of classes of the device.
    split
        Which split to read, of files that have several.
    class_names
        The names of the classes in the order of their numbers, for folders of pictures; by default 0, 1, 2 …

    Raises
    ------
    InputError
        If it does not exist, is damaged, or does not fit the classes.
    """
    if class_names is not None and len(class_names) != classes:
        raise InputError(f"{len(class_names)} classes are named, but the device has {classes}")
    if not path.exists():
        raise input_error(path, "there is no such file or folder")
    if not folder.matches(path):
        return load(path, split, classes=classes)
    names = [str(label) for label in range(classes)] if class_names is None else class_names
    try:
        return folder.read(path, split, classes, names)
    except InputError as error:
        hint = " (folders are named 0, 1, 2 … unless --class-names says how)" if class_names is None else ""
        raise InputError(f"{error}{hint}") from None


def read_files(
    paths: Sequence[Path],
    classes: int,
    *,
    user: str | None = None,
    split: str = "train",
    class_names: Sequence[str] | None = None,
) -> tuple[Uploads, list[Rows]]:
    """Read all these files.

    Parameters
    ----------
    paths
        Files and folders.
    classes
        The number of classes of the device.
    user
        The user of files that do not name users.
    split
        Which split to read, of files that have several.
    class_names
        The names of the classes in the order of their numbers, for folders of pictures.

    Returns
    -------
    tuple
        Inputs and labels by user, and the user of each row of each file. A user's upload has their rows in this order.

    Raises
    ------
    InputError
        If a file is wrong, or if it names users and `user` is given, or neither.
    """
    parts: dict[str, list[tuple[Path, NDArray[Any], NDArray[np.int64]]]] = {}
    rows = []
    for path in paths:
        data = labelled(path, classes, split=split, class_names=class_names)
        if data.users is not None and user is not None:
            raise input_error(path, f"it says itself whose its samples are: leave out --user {user}")
        if data.users is None and user is None:
            raise input_error(path, "it does not say whose its samples are: say it with --user")
        owners = _owners(path, np.full(len(data), user) if data.users is None else data.users)
        rows.append(Rows(path, owners.tolist()))
        for owner in np.unique(owners).tolist():
            owned = owners == owner
            parts.setdefault(owner, []).append((path, data.x[owned], data.y[owned]))
    return {owner: _join(owned) for owner, owned in sorted(parts.items())}, rows


def _owners(path: Path, users: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return the users of the rows in normal form."""
    names, places = np.unique(users, return_inverse=True)
    try:
        normal = np.array([normal_name(name) for name in names.tolist()])
    except InputError as error:
        raise input_error(path, str(error)) from None
    return normal[places]


def read_rows(
    path: Path, classes: int, *, user: str, split: str = "train", class_names: Sequence[str] | None = None
) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """Read rows to compare with the samples of a user.

    Parameters
    ----------
    path
        A file or folder, with labels or without.
    classes
        The number of classes of the device.
    user
        The user. Of a file that names users, only the rows of this user are returned.
    split
        Which split to read, of files that have several.
    class_names
        The names of the classes in the order of their numbers, for folders of pictures.

    Returns
    -------
    tuple
        Inputs, and labels or None.
    """
    if not path.exists():
        raise input_error(path, "there is no such file or folder")
    x: NDArray[Any]
    y: NDArray[np.int64] | None
    if _has_labels(path, split):
        data = labelled(path, classes, split=split, class_names=class_names)
        x, y, users = data.x, data.y, data.users
    else:
        x, y = read_inputs(path), None
        users = Arrays(path).get("users") if is_zip(path) else None
    if users is None:
        return x, y
    owned = np.array([fold(str(name)) == fold(user) for name in users.tolist()])
    if len(owned) != len(x) or not owned.any():
        raise input_error(path, f"it says itself whose its rows are, and none is of user {user!r}")
    return x[owned], None if y is None else y[owned]


def _has_labels(path: Path, split: str) -> bool:
    if is_zip(path):
        arrays = Arrays(path)
        return f"y_{split}" in arrays or ("y" in arrays and "x" in arrays)
    if path.is_file() and table.matches(path):
        first = files.read(path, table.MOST_TABLE_BYTES).partition(b"\n")[0]
        return "label" in next(csv.reader([first.decode("utf-8-sig", "replace").strip()]), [])
    return not path.is_dir() or folder.matches(path)


def _join(parts: Sequence[tuple[Path, NDArray[Any], NDArray[np.int64]]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    first = parts[0][1]
    for path, x, _ in parts:
        if x.shape[1:] != first.shape[1:] or x.dtype != first.dtype:
            raise input_error(
                path, f"inputs are {x.dtype} of shape {x.shape[1:]}, in {str(parts[0][0])!r} {first.dtype} of "
                f"{first.shape[1:]}: one user's must be alike"
            )  # fmt: skip
    return np.concatenate([x for _, x, _ in parts]), np.concatenate([y for _, _, y in parts])


def read_inputs(path: Path) -> NDArray[Any]:
    """Read inputs without labels: an npz file with `x`, a CSV file with or without labels, a folder of pictures."""
    if not path.exists():
        raise input_error(path, "there is no such file or folder")
    if is_zip(path):
        arrays = Arrays(path)
        name = next((name for name in ("x", "x_test", "x_train") if name in arrays), None)
        if name is None:
            raise input_error(path, f"there is no 'x' in it, only {', '.join(sorted(arrays)[:8])}")
        npz.refuse_unknown(arrays, path)
        return _check(npz.inputs_of(arrays[name], path), path)
    if path.is_file() and table.matches(path):
        return _rows(path)
    if path.is_dir():
        pictures = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
        if pictures:
            return _pixels(pictures)
    data = load(path, classes=None)
    return data.x


def _rows(path: Path) -> NDArray[np.float32]:
    text = files.read(path, table.MOST_TABLE_BYTES)
    try:
        lines = csv.reader(io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True)
        header = next(lines, [])
        columns = [at for at, name in enumerate(header) if name not in ("label", "user")]
        rows = []
        for row in lines:
            if row and len(row) != len(header):
                raise input_error(f"{path}:{lines.line_num}", f"{len(row)} values, but {len(header)} columns")
            if row:
                rows.append(table.floats(row[at] for at in columns))
    except UnicodeDecodeError:
        raise input_error(path, "not text in UTF-8") from None
    except csv.Error as error:
        raise input_error(path, f"not a table: {error}") from None
    except (ValueError, OverflowError):
        raise input_error(f"{path}:{lines.line_num}", "numbers are needed") from None
    if not rows or not columns:
        raise input_error(path, "there are no rows of numbers below a header")
    return _check(np.stack(rows), path)


def _pixels(pictures: Sequence[Path]) -> NDArray[Any]:
    decoded = []
    for picture in pictures:
        decoded.append(decode(files.read(picture, folder.MOST_PICTURE_BYTES), picture))
        if decoded[-1].shape != decoded[0].shape:
            raise input_error(picture, f"its shape is {decoded[-1].shape}, the first picture's {decoded[0].shape}")
        if len(decoded) * decoded[0].nbytes > files.MOST_BYTES:
            raise input_error(picture.parent, f"more than {format_bytes(files.MOST_BYTES)} of pixels")
    return np.stack(decoded)


def _check(x: NDArray[Any], path: Path) -> NDArray[Any]:
    if x.ndim < 2 or not x.size:
        raise input_error(path, f"inputs of shape {x.shape}: one row a sample is needed")
    check_finite(x, path)
    return x
