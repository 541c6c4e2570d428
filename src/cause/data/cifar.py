"""CIFAR-10 and CIFAR-100, binary version: records of one or two label bytes and 3,072 bytes of red, green, blue.

The "python version" is a pickle, which can run code when it is opened; the binary version holds the same pixels in the
same order, so nothing is lost by reading that one only.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cause.data import files
from cause.data.dataset import Dataset, check_split, input_error

PIXELS = 3 * 32 * 32
PICKLED_FOLDERS = ("cifar-10-batches-py", "cifar-100-python")
PICKLED_FILES = ("data_batch_1", "test_batch", "batches.meta")


@dataclass(frozen=True)
class Cifar:
    """One of the two data sets, which differ in classes, label bytes and names of files."""

    name: str
    classes: int
    label_bytes: int  # CIFAR-100 has the coarse label first; the last one is used
    folder: str
    archive: str
    batches: dict[str, tuple[str, ...]]

    def matches(self, path: Path) -> bool:
        """Return whether the path is a folder, an archive or a single batch of this data set."""
        if path.is_dir():
            return any((path / name).is_file() for names in self.batches.values() for name in names)
        if path.suffix == ".bin":
            return any(path.name in names for names in self.batches.values())
        return files.is_tar(path) and (path.name == self.archive or self.name == _in_tar(path))

    def read(self, path: Path, split: str = "train", classes: int | None = None) -> Dataset:
        """Read a split from a folder, an archive, or one batch that belongs to it."""
        check_split(split)
        names_of_split = self.batches[split]
        if path.suffix == ".bin":
            if path.name not in names_of_split:
                raise input_error(path, f"it does not belong to the {split} split: {', '.join(names_of_split)}")
            batches = {path.name: files.read(path)}
        else:
            batches = (
                {name: files.read(path / name) for name in names_of_split if (path / name).exists()}
                if path.is_dir()
                else files.members(path, names_of_split)
            )
            missing = [name for name in names_of_split if name not in batches]
            if missing:
                raise input_error(path, f"{missing[0]!r} is missing")
        record = self.label_bytes + PIXELS
        for name, data in batches.items():
            if not data or len(data) % record:
                raise input_error(
                    path if path.name == name else path / name,
                    f"{len(data):,} bytes are no whole number of images of {record:,} bytes: it is cut off",
                )
        rows = np.frombuffer(b"".join(batches[name] for name in names_of_split if name in batches), np.uint8)
        rows = rows.reshape(-1, record)
        images = rows[:, self.label_bytes :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = rows[:, self.label_bytes - 1].astype(np.int64)
        if labels.max() >= self.classes:
            raise input_error(path, f"label {labels.max()}, but {self.name} has {self.classes} classes (from 0)")
        return Dataset(np.ascontiguousarray(images), labels, self.classes, self.name, split, source=path)


CIFAR10 = Cifar(
    "cifar10",
    10,
    1,
    "cifar-10-batches-bin",
    "cifar-10-binary.tar.gz",
    {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)},
)
CIFAR100 = Cifar(
    "cifar100",
    100,
    2,
    "cifar-100-binary",
    "cifar-100-binary.tar.gz",
    {"train": ("train.bin",), "test": ("test.bin",)},
)


def is_pickled(path: Path) -> bool:
    """Return whether the path is the python version, which is a pickle."""
    if path.is_dir():
        return path.name in PICKLED_FOLDERS or any((path / name).exists() for name in PICKLED_FILES)
    return path.name in PICKLED_FILES or path.name.startswith(("cifar-10-python.tar", "cifar-100-python.tar"))


def _in_tar(path: Path) -> str | None:
    """Return which data set the first entry of an archive belongs to."""
    first = files.head(path, 100).split(b"\0")[0].decode(errors="replace")
    return {"cifar-10-batches-bin": "cifar10", "cifar-100-binary": "cifar100"}.get(first.strip("/").split("/")[0])
