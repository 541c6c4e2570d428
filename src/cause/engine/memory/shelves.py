"""Shelves: where the bytes of sub-models lie."""

import hashlib
import os
from pathlib import Path
from typing import Protocol

from cause.engine.samples import SegmentKey
from cause.errors import InputError, LearnerError


class Shelf(Protocol):
    """Keeps what the memory admits, and destroys what it drops."""

    def put(self, key: SegmentKey, blob: bytes) -> None: ...

    def get(self, key: SegmentKey) -> bytes: ...

    def destroy(self, key: SegmentKey) -> None: ...


class MemoryShelf:
    """Bytes kept in the process."""

    def __init__(self) -> None:
        self._blobs: dict[SegmentKey, bytes] = {}

    def put(self, key: SegmentKey, blob: bytes) -> None:
        self._blobs[key] = blob

    def get(self, key: SegmentKey) -> bytes:
        return self._blobs[key]

    def destroy(self, key: SegmentKey) -> None:
        del self._blobs[key]


class FolderShelf:
    """Bytes kept in files of one folder, each with its digest, which is checked on every load.

    It knows no more than the process does: a folder that holds sub-models of an earlier run is refused, since nobody
    could say whether they have seen what was forgotten since.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     shelf = FolderShelf(folder)
    ...     shelf.put(SegmentKey(0, 1), b"weights")
    ...     shelf.get(SegmentKey(0, 1))
    b'weights'
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            earlier = sorted(self.folder.glob("*.sub*"))
        except OSError as error:
            raise InputError(f"cannot keep sub-models in {str(folder)!r}: {error.strerror}") from None
        if earlier:
            raise InputError(f"{str(folder)!r} holds sub-models of an earlier run ({earlier[0].name}): empty it first")

    def put(self, key: SegmentKey, blob: bytes) -> None:
        path = self._path(key)
        partial = path.with_suffix(".sub-part")
        try:
            with partial.open("wb") as file:
                file.write(hashlib.sha256(blob).digest())
                file.write(blob)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise LearnerError(f"sub-model {key} cannot be stored: {error.strerror}") from None

    def get(self, key: SegmentKey) -> bytes:
        try:
            data = self._path(key).read_bytes()
        except OSError as error:
            raise LearnerError(f"sub-model {key} cannot be read: {error.strerror}") from None
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            raise LearnerError(f"sub-model {key} is damaged: {str(self._path(key))!r} has another digest")
        return data[32:]

    def destroy(self, key: SegmentKey) -> None:
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: SegmentKey) -> Path:
        return self.folder / f"{key.shard}-{key.round}-{key.slice}.sub"
