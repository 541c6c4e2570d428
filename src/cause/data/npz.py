"""npz files with the arrays `x`, `y` and perhaps `users`, or `x_train`, `y_train`, `x_test` and `y_test`."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.dataset import Dataset, bad, check_split, class_count, labels_of
from cause.data.zipped import Arrays, is_zip


def matches(path: Path) -> bool:
    """Return whether the path is an npz file with inputs."""
    return is_zip(path) and bool({"x", "x_train", "x_test"} & set(Arrays(path)))


def read(path: Path, split: str = "train", classes: int | None = None) -> Dataset:
    """Read a split. Inputs are bytes or floats; other numbers become float32. A damaged file is an `InputError`."""
    check_split(split)
    arrays = Arrays(path)
    end = f"_{split}" if f"x_{split}" in arrays else ""
    if not end and (split != "train" or "x" not in arrays):
        raise bad(path, f"there is no 'x_{split}' in it, only {', '.join(sorted(arrays)[:8])}")
    if f"y{end}" not in arrays:
        raise bad(path, f"there is 'x{end}' in it, but no 'y{end}'")
    y = labels_of(arrays[f"y{end}"], path)
    users = arrays.get(f"users{end}")
    return Dataset(
        inputs_of(arrays[f"x{end}"], path),
        y,
        class_count(y, classes),
        path.stem,
        split,
        None if users is None else users.astype(np.str_),
        path,
    )


def inputs_of(x: NDArray[Any], path: Path) -> NDArray[Any]:
    """Return inputs as bytes or floats in native byte order; other numbers become float32."""
    if x.dtype.kind not in "buif":
        raise bad(path, f"inputs must be numbers, not {x.dtype}")
    unchanged = x.dtype == np.uint8 or x.dtype.kind == "f"
    return x.astype(x.dtype.newbyteorder("="), copy=False) if unchanged else x.astype(np.float32)
