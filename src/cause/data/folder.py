"""Folders of pictures: `CLASS/picture.png`, or `USER/CLASS/picture.png`; perhaps below `train/` and `test/`."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from cause.common.units import format_bytes
from cause.data import files
from cause.data.dataset import Dataset, check_split, input_error
from cause.data.pictures import SUFFIXES, decode

MOST_PICTURES = 5_000_000
MOST_PICTURE_BYTES = 2**28


def matches(path: Path) -> bool:
    """Return whether the path is a folder with pictures two or three levels down."""
    return path.is_dir() and any(True for root in (path, path / "train", path / "test") for _ in _walk(root))


def read(path: Path, split: str = "train", classes: int | None = None, names: Sequence[str] | None = None) -> Dataset:
    """Read a split.

    Parameters
    ----------
    path
        The folder.
    split
        "train" or "test".
    classes
        The number of classes; by default that of the names.
    names
        The names of the classes in the order of their numbers; by default those of the folders, sorted. Give them where
        folders may change: a class that a deletion emptied must not renumber the others.

    Raises
    ------
    InputError
        If there are no pictures, or one is damaged, of another size, or of an unknown class.
    """
    check_split(split)
    root = path / split if any((path / name).is_dir() for name in ("train", "test")) else path
    if root == path and split != "train":
        raise input_error(path, f"there is no folder {split!r} in it")
    pictures = _pictures(root)
    if not pictures:
        raise input_error(root, f"no pictures ({', '.join(SUFFIXES)}) in folders of classes, or of users and classes")
    depths = {len(picture.relative_to(root).parts) for picture in pictures}
    if len(depths) > 1:
        raise input_error(root, "some pictures are in CLASS/ and others in USER/CLASS/: they must all be alike")
    class_names = sorted({picture.parent.name for picture in pictures}) if names is None else list(names)
    number = {name: label for label, name in enumerate(class_names)}
    decoded = []
    total = 0
    for picture in pictures:
        if picture.parent.name not in number:
            raise input_error(picture, f"its class {picture.parent.name!r} is none of those named")
        pixels = decode(files.read(picture, MOST_PICTURE_BYTES), picture)
        total += pixels.nbytes
        if total > files.MOST_BYTES:
            raise input_error(root, f"more than {format_bytes(files.MOST_BYTES)} of pixels")
        decoded.append(pixels)
        if pixels.shape[:2] != decoded[0].shape[:2]:
            high, wide = decoded[0].shape[:2]
            raise input_error(
                picture, f"{pixels.shape[1]}×{pixels.shape[0]} pixels, but the first picture has {wide}×{high}"
            )
    if len({pixels.ndim for pixels in decoded}) > 1:  # some are grey, some in colour
        decoded = [np.stack([pixels] * 3, axis=-1) if pixels.ndim == 2 else pixels for pixels in decoded]
    y = np.array([number[picture.parent.name] for picture in pictures], dtype=np.int64)
    users = np.array([picture.parent.parent.name for picture in pictures]) if depths == {3} else None
    return Dataset(
        np.stack(decoded), y, len(class_names) if classes is None else classes, path.name, split, users, root
    )


def _pictures(root: Path) -> list[Path]:
    """Return all pictures, sorted by path."""
    pictures = list(islice(_walk(root), MOST_PICTURES + 1))
    if len(pictures) > MOST_PICTURES:
        raise input_error(root, f"more than {MOST_PICTURES:,} pictures")
    return sorted(pictures)


def _walk(root: Path) -> Iterator[Path]:
    """Yield the pictures two and three levels down."""
    for pattern in ("*/*", "*/*/*"):
        for path in root.glob(pattern):
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file():
                yield path
