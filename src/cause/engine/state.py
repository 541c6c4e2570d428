"""What a device holds, under one lock: what is retained, what is stored, and whether that changed since one looked."""

from collections.abc import Iterable
from threading import RLock
from typing import Any, Protocol

from cause.engine.journal import Journal
from cause.engine.ledger import Ledger
from cause.engine.memory import Memory, SubModel
from cause.engine.samples import SegmentKey
from cause.errors import DamageError


class Storage(Protocol):
    """What a memory is filled from: the home of a device."""

    @property
    def read_only(self) -> bool:
        """Whether another process writes it."""

    def load(self, memory: Memory) -> None:
        """Fill ledger and memory with what is stored, as after an error."""

    def refresh(self, memory: Memory) -> bool:
        """Read what the writing process has changed; whether that was anything."""


def samples_between(ledger: Ledger, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
    """Retained samples of a shard's segments after one, up to another."""
    lineage = ledger.lineage(shard)
    return lineage.samples_upto(upto) - lineage.samples_upto(after)


class State:
    """Ledger and memory together, and the journal that makes them last.

    Whoever trains or replays remembers `changes` when it begins and asks `current` before anything of it counts.
    """

    def __init__(
        self, ledger: Ledger, memory: Memory, storage: Storage | None = None, journal: Journal | None = None
    ) -> None:
        self.ledger, self.memory, self._storage = ledger, memory, storage
        self.journal = journal or Journal()
        self.lock = RLock()  # of ledger and memory; never held while something trains
        self.changes = 0
        """Grows with each deletion, and with each sub-model that is found damaged."""
        self.reloads = 0
        """Grows when a device that only reads goes on with what another process has changed."""
        self._touched: dict[int, int] = {}  # by shard: the last of them that touched it
        self._reloaded = 0  # the last one after which nothing in memory was as before

    # What is there

    def heads(self) -> dict[int, SubModel]:
        """The sub-models that vote, by shard."""
        with self.lock:
            found = {shard: self.memory.head(shard) for shard in self.memory.shards()}
        return {shard: head for shard, head in found.items() if head is not None}

    def weight(self, head: SubModel) -> int:
        """How many retained samples are behind a sub-model."""
        return samples_between(self.ledger, head.key.shard, None, head.key)

    def waiting(self) -> list[int]:
        """The shards whose head is not their newest segment."""
        with self.lock:
            return [shard for shard in self.ledger.shards() if not self.up_to_date(shard)]

    def up_to_date(self, shard: int) -> bool:
        """Whether a shard's head is its newest segment."""
        head = self.memory.head(shard)
        return head is not None and head.key == self.ledger.lineage(shard).last

    def head_blob(self, shard: int) -> bytes | None:
        """The bytes of a shard's head, if it has one."""
        with self.lock:
            head = self.memory.head(shard)
            return None if head is None else self.load(head.key)

    def load(self, key: SegmentKey) -> bytes:
        """A stored sub-model. A damaged one leaves the memory: the shard falls back, and repair makes it again."""
        try:
            return self.memory.shelf.get(key)
        except DamageError:
            if self.look():
                raise  # it was destroyed meanwhile, by the process that writes
            self.touch([key.shard])  # whoever counts on it starts again
            self.memory.discard(key)
            self.journal.discarded(key)
            raise

    # What changed

    def touch(self, shards: Iterable[int]) -> None:
        """Whatever was begun on these shards before starts again."""
        self.changes += 1
        self._touched.update(dict.fromkeys(shards, self.changes))

    def current(self, shard: int, since: int) -> bool:
        """Whether nothing of a shard was forgotten or found damaged since so many `changes`."""
        return max(self._touched.get(shard, 0), self._reloaded) <= since

    def reload(self) -> None:
        """After an error: what is on the disk decides."""
        if self._storage is not None:
            self.changes += 1
            self._reloaded = self.changes
            self._storage.load(self.memory)

    def look(self) -> bool:
        """A device that only reads goes on with what its writer has done since; whether that was anything."""
        if self._storage is None or not self._storage.read_only:
            return False
        with self.lock:
            changed = self._storage.refresh(self.memory)
            self.reloads += changed
            return changed

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=RLock())
