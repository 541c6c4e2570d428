"""SVHN, format 2 (cropped digits): `train_32x32.mat`, `test_32x32.mat`. The label 10 of the files means the digit 0."""

from pathlib import Path

import numpy as np

from cause.data.dataset import Dataset, check_split, input_error, labels_of
from cause.data.mat5 import is_mat5, read_arrays

NAME, CLASSES = "svhn", 10
FILES = {"train": "train_32x32.mat", "test": "test_32x32.mat"}


def matches(path: Path) -> bool:
    """Return whether the path is a file of SVHN, or a folder with one."""
    return is_mat5(path) or any((path / name).is_file() for name in FILES.values())


def read(path: Path, split: str = "train", classes: int | None = None) -> Dataset:
    """Read a split from a folder or from its file. A file that is damaged is an `InputError`."""
    check_split(split)
    file = path / FILES[split] if path.is_dir() else path
    if path.is_file() and path.name in FILES.values() and path.name != FILES[split]:
        raise input_error(path, f"this is not the {split} split: take {FILES[split]!r}")
    arrays = read_arrays(file, ("X", "y"))
    x, y = arrays["X"], labels_of(arrays["y"], file)
    if x.dtype != np.uint8 or x.ndim not in (3, 4) or x.shape[:3] != (32, 32, 3):  # one image has no fourth dimension
        raise input_error(
            file, f"images of 32×32 pixels and 3 colours as bytes are needed, not {x.dtype} of shape {x.shape}"
        )
    images = np.ascontiguousarray(x.reshape(32, 32, 3, -1, order="F").transpose(3, 0, 1, 2))
    if len(images) != len(y):
        raise input_error(file, f"{len(images):,} images, but {len(y):,} labels")
    if len(y) and not 1 <= y.min() <= y.max() <= CLASSES:
        raise input_error(file, f"labels are 1 to 10 (10 is the digit 0), but there are {y.min()} and {y.max()}")
    return Dataset(images, y % CLASSES, CLASSES, NAME, split, source=file)
