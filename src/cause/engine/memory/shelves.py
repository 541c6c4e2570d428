"""Shelves store the bytes of sub-models."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol

from cause.engine.samples import SegmentKey


class Shelf(Protocol):
    """Stores the bytes of the sub-models in the memory.

    A shelf of one's own is a subclass that has `put`, `get` and `destroy`.
    """

    @abstractmethod
    def put(self, key: SegmentKey, blob: bytes) -> None:
        """Store the bytes of a sub-model."""

    def put_later(self, key: SegmentKey, encode: Callable[[], bytes]) -> None:
        """Add a state whose bytes `encode` makes at the first `get` or `write`; here they are stored at once."""
        self.put(key, encode())

    def is_pending(self, key: SegmentKey) -> bool:
        """Return whether the bytes of a state are not written yet; here false."""
        return False

    def write(self, key: SegmentKey) -> None:
        """Write the bytes of a pending state; here none is pending, and nothing is done."""
        assert not self.is_pending(key)

    @abstractmethod
    def get(self, key: SegmentKey) -> bytes:
        """Return the bytes of a stored sub-model.

        Raises
        ------
        DamageError
            If they are missing or are not those that were stored: the sub-model is then dropped.
        """

    @abstractmethod
    def destroy(self, key: SegmentKey) -> None:
        """Delete the bytes of a sub-model for good."""


class MemoryShelf(Shelf):
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
