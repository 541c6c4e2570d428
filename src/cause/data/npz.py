"""npz files with the arrays `x`, `y` and perhaps `users`, or `x_train`, `y_train`, `x_test` and `y_test`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cause.common.registry import nearest
from cause.data.dataset import Dataset, check_split, class_count, input_error, labels_of
from cause.data.zipped import Arrays, is_zip

ARRAYS = ("x", "y", "users")


def matches(path: Path) -> bool:
    """Return whether the path is an npz file with inputs."""
    return is_zip(path) and bool({"x", "x_train", "x_test"} & set(Arrays(path)))


def read(path: Path, split: str = "train", classes: int | None = None) -> Dataset:
    """Read a split. Inputs are bytes or floats; other numbers become float32. A damaged file is an `InputError`."""
    check_split(split)
    arrays = Arrays(path)
    end = f"_{split}" if f"x_{split}" in arrays else ""
    if not end and (split != "train" or "x" not in arrays):
        raise input_error(path, f"there is no 'x_{split}' in it, only {', '.join(sorted(arrays)[:8])}")
    if f"y{end}" not in arrays:
        raise input_error(path, f"there is 'x{end}' in it, but no 'y{end}'")
    refuse_unknown(arrays, path)
    y = labels_of(arrays[f"y{end}"], path)
    users = arrays.get(f"users{end}")
    return Dataset(
        inputs_of(arrays[f"x{end}"], path),
        y,
        class_count(y, classes),
        path.stem,
        split,
        None if users is None else users_of(users, path),
        path,
    )


def users_of(users: NDArray[Any], path: Path) -> NDArray[np.str_]:
    """Return the names of users: texts, or whole numbers, which are their texts. 1 and 1.0 would be two users."""
    if users.dtype.kind not in "USiu":
        raise input_error(path, f"users are texts or whole numbers, not {users.dtype}")
    return users.astype(np.str_)


def inputs_of(x: NDArray[Any], path: Path) -> NDArray[Any]:
    """Return inputs as bytes or floats in native byte order; other numbers become float32."""
    if x.dtype.kind not in "buif":
        raise input_error(path, f"inputs must be numbers, not {x.dtype}")
    unchanged = x.dtype == np.uint8 or x.dtype.kind == "f"
    return x.astype(x.dtype.newbyteorder("="), copy=False) if unchanged else x.astype(np.float32)


def refuse_unknown(arrays: Iterable[str], path: Path | IO[bytes], allowed: Sequence[str] | None = None) -> None:
    """Refuse a file with arrays that nothing would read: one called `Users` or `owners` says whose the samples are.

    Parameters
    ----------
    arrays
        The names of the arrays of the file.
    path
        The file, for the error.
    allowed
        The names that are read; by default `x`, `y` and `users`, and the same of each split that has inputs.

    Raises
    ------
    InputError
        If there are others.

    Examples
    --------
    >>> refuse_unknown(["x", "y", "Users"], Path("a.npz"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cause.errors.InputError: 'a.npz': nothing reads its array 'Users' (did you mean 'users'?): leave it out; ...
    """
    names = list(arrays)
    if allowed is None:
        allowed = [f"{name}{end}" for end in ("", "_train", "_test") if f"x{end}" in names for name in ARRAYS]
    unknown = [name for name in names if name not in allowed]
    if unknown:
        which = ", ".join(f"{name!r}{nearest(name.lower(), allowed)}" for name in unknown[:8])
        more = f" and {len(unknown) - 8} more" if len(unknown) > 8 else ""
        noun, pronoun = ("array", "it") if len(unknown) == 1 else ("arrays", "them")
        raise input_error(
            path, f"nothing reads its {noun} {which}{more}: leave {pronoun} out; {', '.join(allowed)} are read"
        )
