"""A shelf that keeps sub-models in the files of a folder, so that a test can see what stays on a disk."""

import hashlib
from pathlib import Path

from cause.engine.memory import Shelf
from cause.engine.samples import SegmentKey
from cause.errors import DamageError, ReadError


class FolderShelf(Shelf):
    """Keeps bytes in files of one folder, each with a digest that is checked when it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, key: SegmentKey, blob: bytes) -> None:
        self.path(key).write_bytes(hashlib.sha256(blob).digest() + blob)

    def get(self, key: SegmentKey) -> bytes:
        try:
            data = self.path(key).read_bytes()
        except FileNotFoundError:
            raise DamageError(f"sub-model {key} is lost") from None
        except OSError as error:
            raise ReadError(f"sub-model {key} cannot be read: {error.strerror}") from None
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            raise DamageError(f"sub-model {key} is damaged: {str(self.path(key))!r} has another digest")
        return data[32:]

    def destroy(self, key: SegmentKey) -> None:
        self.path(key).unlink(missing_ok=True)

    def path(self, key: SegmentKey) -> Path:
        """Return the file of a sub-model."""
        return self.folder / f"{key.shard}-{key.round}-{key.slice}.sub"
