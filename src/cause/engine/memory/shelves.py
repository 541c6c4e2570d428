"""Shelves store the bytes of sub-models, in memory or in a folder."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from cause.common.files import absolute
from cause.engine.samples import SegmentKey
from cause.errors import InputError, LearnerError


class Shelf(Protocol):
    """Stores the bytes of the sub-models in the memory."""

    def put(self, key: SegmentKey, blob: bytes) -> None:
        """Store the bytes of a sub-model."""

    def get(self, key: SegmentKey) -> bytes:
        """Return the bytes of a stored sub-model; a `LearnerError` or `DamageError` if they cannot be read."""

    def destroy(self, key: SegmentKey) -> None:
        """Delete the bytes of a sub-model for good."""


@runtime_checkable
class LazyShelf(Shelf, Protocol):
    """A shelf that can hold a state before its bytes are made."""

    def put_later(self, key: SegmentKey, encode: Callable[[], bytes]) -> None:
        """Add a state without its bytes; `encode` makes them at the first `get` or `write`."""

    def is_pending(self, key: SegmentKey) -> bool:
        """Return whether the bytes of a state are not written yet."""

    def write(self, key: SegmentKey) -> None:
        """Write the bytes of a pending state."""


class MemoryShelf:
    """Keeps bytes in the process's memory."""

    def __init__(self) -> None:
        self._blobs: dict[SegmentKey, bytes | Callable[[], bytes]] = {}

    def put(self, key: SegmentKey, blob: bytes) -> None:
        self._blobs[key] = blob

    def put_later(self, key: SegmentKey, encode: Callable[[], bytes]) -> None:
        self._blobs[key] = encode

    def is_pending(self, key: SegmentKey) -> bool:
        return callable(self._blobs[key])

    def write(self, key: SegmentKey) -> None:
        """Do nothing: the process's memory holds what the bytes would be made of."""

    def get(self, key: SegmentKey) -> bytes:
        blob = self._blobs[key]
        return blob() if callable(blob) else blob

    def destroy(self, key: SegmentKey) -> None:
        del self._blobs[key]


class FolderShelf:
    """Keeps bytes in files of one folder, each with a digest that is checked when it is read.

    A folder with sub-models of an earlier run is refused: they may have been trained on samples that were forgotten
    since.

    Parameters
    ----------
    folder
        The folder; it is made if it does not exist.

    Raises
    ------
    InputError
        If the folder cannot be made, or holds sub-models.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     shelf = FolderShelf(folder)
    ...     shelf.put(SegmentKey(0, 1), b"weights")
    ...     shelf.get(SegmentKey(0, 1))
    b'weights'
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = absolute(folder)
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
