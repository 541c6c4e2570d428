"""npz files of coded pictures, each a mosaic of 32×32 images: a tenth of the bytes, or lossless at half.

`y_train` and `y_test` hold the labels. The bytes of the pictures (JPEG, PNG, WebP) are in `train_000`, `train_001` …
and `test_000` …, images row by row; or in `s000`, `s001` …, the training images first and then the test images. A set
may be spread over several files, `NAME_part1.npz`, `NAME_part2.npz` …
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cause.common.machine import cores
from cause.common.units import format_bytes
from cause.data import files
from cause.data.dataset import Dataset, check_split, class_count, input_error, labels_of
from cause.data.npz import refuse_unknown
from cause.data.pictures import decode
from cause.data.zipped import Arrays, is_zip

SIDE = 32
COARSE = ("g_train", "g_test")
"""Labels of groups of classes, which are not read."""
_PART = re.compile(r"(.+)_part\d+")
_PICTURE = re.compile(r"(?:train|test)_\d+|s\d+")


def matches(path: Path) -> bool:
    """Return whether the path is an npz file of coded pictures."""
    return is_zip(path) and any(_PICTURE.fullmatch(name) for name in Arrays(path))


def read(path: Path, split: str = "train", classes: int | None = None) -> Dataset:
    """Read a split, from all parts of the set. A file that is damaged or missing is an `InputError`."""
    check_split(split)
    parts = [Arrays(file) for file in _parts(path)]
    for part in parts:
        others = (name for name in part if not _PICTURE.fullmatch(name) and name not in COARSE)
        refuse_unknown(others, part.path, ("y_train", "y_test"))
    labels = {s: labels_of(_only(parts, f"y_{s}"), path) for s in ("train", "test")}
    y = labels[split]
    images = _images([(part, name) for part in parts for name in sorted(part) if re.fullmatch(rf"{split}_\d+", name)])
    if images is None:
        strips = [(part, name) for part in parts for name in sorted(part) if re.fullmatch(r"s\d+", name)]
        images = _split(strips, len(labels["train"]), len(labels["test"]), split, path)
    if len(images) < len(y):
        raise input_error(path, f"{len(images):,} images, but {len(y):,} labels of the {split} split")
    name = matched[1] if (matched := _PART.fullmatch(path.stem)) else path.stem
    count = class_count(np.concatenate(list(labels.values())), classes)
    return Dataset(images[: len(y)], y, count, name, split, source=path)


def _parts(path: Path) -> list[Path]:
    matched = _PART.fullmatch(path.stem)
    if matched is None:
        return [path]
    same = [file for file in path.parent.iterdir() if re.fullmatch(re.escape(matched[1]) + r"_part\d+\.npz", file.name)]
    return sorted(same, key=lambda file: int(file.stem.rpartition("_part")[2]))


def _only(parts: Sequence[Arrays], name: str) -> NDArray[np.int64]:
    for part in parts:
        if name in part:
            return part[name]
    raise input_error(parts[0].path, f"there is no {name!r} in it")


def _split(strips: Sequence[tuple[Arrays, str]], train: int, test: int, split: str, path: Path) -> NDArray[np.uint8]:
    """Return the images of one split from strips that hold both splits."""
    images = _images(strips)
    if images is None:
        raise input_error(path, f"there are no pictures of the {split} split in it")
    if len(images) < train + test:
        raise input_error(path, f"{len(images):,} images, but {train + test:,} labels: is a part missing?")
    return images[:train] if split == "train" else images[train : train + test]


def _images(pictures: Sequence[tuple[Arrays, str]]) -> NDArray[np.uint8] | None:
    if not pictures:
        return None
    images = list[NDArray[np.uint8]]()
    with ThreadPoolExecutor(cores()) as pool:  # Pillow releases the interpreter's lock
        for at in range(0, len(pictures), cores()):  # a few at a time: small files may hold large pictures
            images += pool.map(_tiles, pictures[at : at + cores()])
            if sum(tiles.nbytes for tiles in images) > files.MOST_BYTES:
                raise input_error(pictures[0][0].path, f"more than {format_bytes(files.MOST_BYTES)} of pixels")
    return np.concatenate(images)


def _tiles(picture: tuple[Arrays, str]) -> NDArray[np.uint8]:
    arrays, name = picture
    coded = arrays[name]
    if coded.dtype != np.uint8 or coded.ndim != 1:
        raise input_error(
            arrays.path, f"{name!r} must be the bytes of a picture, not {coded.dtype} of shape {coded.shape}"
        )
    pixels = decode(coded.tobytes(), f"{arrays.path}:{name}")
    if pixels.ndim == 2:
        pixels = np.stack([pixels] * 3, axis=-1)
    height, width = pixels.shape[:2]
    if height % SIDE or width % SIDE:
        raise input_error(arrays.path, f"{name!r} is {width}×{height} pixels: not a mosaic of {SIDE}×{SIDE}")
    tiles = pixels.reshape(height // SIDE, SIDE, width // SIDE, SIDE, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(tiles).reshape(-1, SIDE, SIDE, 3)
