"""MNIST and Fashion-MNIST: idx files of images and of labels, plain or gzip."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cause.data import files
from cause.data.dataset import Dataset, check_split, input_error

CLASSES = 10
PREFIX = {"train": "train", "test": "t10k"}
IMAGES, LABELS = b"\x00\x00\x08\x03", b"\x00\x00\x08\x01"  # bytes in 3 dimensions, bytes in 1
LARGEST_SIDE = 4096


def matches(path: Path) -> bool:
    """Return whether the path is an idx file of images, or a folder with one."""
    if path.is_dir():
        return any(_find(path, PREFIX[split], "images", 3) for split in PREFIX)
    return path.is_file() and files.head(path, 4) == IMAGES


def read(path: Path, split: str = "train", classes: int | None = None) -> Dataset:
    """Read a split from a folder; a file of images stands for its folder. A file that is damaged is an `InputError`."""
    check_split(split)
    folder = path if path.is_dir() else path.parent
    images, labels = (_find(folder, PREFIX[split], *which) for which in (("images", 3), ("labels", 1)))
    if images is None or labels is None:
        what = "images-idx3" if images is None else "labels-idx1"
        raise input_error(folder, f"'{PREFIX[split]}-{what}-ubyte' (or .gz) is missing")
    x, y = _array(images, IMAGES), _array(labels, LABELS).astype(np.int64)
    if len(x) != len(y):
        raise input_error(images, f"{len(x):,} images, but {len(y):,} labels in {labels.name!r}")
    count = CLASSES if classes is None else classes
    if len(y) and y.max() >= count:
        raise input_error(labels, f"label {y.max()}, but there are {count} classes (from 0)")
    name = "fashion-mnist" if "fashion" in str(folder).lower() else "mnist"
    return Dataset(x, y, count, name, split, source=images)


def _find(folder: Path, prefix: str, what: str, dimensions: int) -> Path | None:
    for dot in "-.":
        for end in ("", ".gz"):
            if (path := folder / f"{prefix}-{what}{dot}idx{dimensions}-ubyte{end}").is_file():
                return path
    return None


def _array(path: Path, magic: bytes) -> NDArray[np.uint8]:
    data = files.read(path)
    header = 4 + 4 * magic[3]
    if data[:4] != magic:
        raise input_error(
            path, f"not an idx file of bytes in {magic[3]} dimensions: it starts with {data[:4].hex() or 'nothing'}"
        )
    if len(data) < header:
        raise input_error(path, "cut off within its header")
    shape = struct.unpack(f">{magic[3]}I", data[4:header])
    if max(shape[1:], default=0) > LARGEST_SIDE:
        raise input_error(path, f"images of {shape[1]}×{shape[2]} pixels: at most {LARGEST_SIDE} a side")
    expected_bytes = int(np.prod(shape, dtype=object))
    if len(data) - header != expected_bytes:
        raise input_error(
            path,
            f"{expected_bytes:,} bytes should follow its header, but {len(data) - header:,} do: cut off or damaged",
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape).copy()
