"""The state of a device under one lock: the ledger, the memory, and a counter of changes to them."""

from collections.abc import Callable, Iterable
from threading import RLock
from typing import Any, Protocol

from cause.engine.journal import Journal
from cause.engine.ledger import Ledger
from cause.engine.memory import Memory, SubModel
from cause.engine.samples import SegmentKey
from cause.errors import DamageError


class Storage(Protocol):
    """What a device's state is loaded from: its home."""

    @property
    def read_only(self) -> bool:
        """Whether the device only reads, while another process writes."""

    def load(self, memory: Memory) -> None:
        """Load ledger and memory from what is stored, as after an error."""

    def finish(self) -> None:
        """Finish what an error or a crash stopped: destroy what is to be destroyed, and sign receipts."""

    def refresh(self, memory: Memory) -> bool:
        """Read what the writing process has changed; return whether it changed anything."""


def samples_between(ledger: Ledger, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
    """Return the number of retained samples in a shard's segments after `after` (None: all), up to `upto`."""
    lineage = ledger.lineage(shard)
    return lineage.samples_upto(upto) - lineage.samples_upto(after)


class SampleCounts:
    """Counts the retained samples of a ledger, for the policy of a memory."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @property
    def round(self) -> int:
        """The number of the last round."""
        return self._ledger.round

    def samples_between(self, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
        """Return the number of retained samples in a shard's segments after `after` (None: all), up to `upto`."""
        return samples_between(self._ledger, shard, after, upto)

    def segments_of(self, shard: int) -> list[tuple[SegmentKey, int]]:
        """Return a shard's segments and their retained samples, oldest first."""
        return [(segment.key, segment.count) for segment in self._ledger.lineage(shard)]


class State:
    """Ledger and memory, and the journal that makes their changes durable.

    A training or replay notes `changes` when it begins, and checks with `current` before its result is used.

    Parameters
    ----------
    ledger, memory
        The retained samples, and the stored sub-models.
    storage
        What both are loaded from; None if the device is in memory.
    journal
        Makes changes durable; by default it does nothing.
    """

    def __init__(
        self, ledger: Ledger, memory: Memory, storage: Storage | None = None, journal: Journal | None = None
    ) -> None:
        self.ledger, self.memory, self._storage = ledger, memory, storage
        self.journal = journal or Journal()
        self.lock = RLock()  # of ledger and memory; never held during a training
        self.changes = 0
        """The number of changes: deletions, damaged sub-models and reloads after an error."""
        self.reader_refreshes = 0
        """How often a device that only reads has taken over changes of the writing process."""
        self._touched: dict[int, int] = {}  # the number of the last change that touched each shard
        self._last_reload = 0  # the number of the last change that reloaded everything
        self._half_loaded = False  # whether the last reload failed: ledger and memory need not fit together

    # Reading

    @property
    def load_version(self) -> tuple[int, int]:
        """Numbers that change whenever ledger and memory were loaded again, after an error or on a reader."""
        return self._last_reload, self.reader_refreshes

    @property
    def read_only(self) -> bool:
        """Whether the device only reads, while another process writes."""
        return self._storage is not None and self._storage.read_only

    def heads(self) -> dict[int, SubModel]:
        """Return the sub-models that vote, by shard."""
        with self.lock:
            heads = {shard: self.memory.head(shard) for shard in self.memory.shards()}
        return {shard: head for shard, head in heads.items() if head is not None}

    def weight(self, head: SubModel) -> int:
        """Return the number of retained samples that a sub-model was trained on."""
        return samples_between(self.ledger, head.key.shard, None, head.key)

    def waiting(self) -> list[int]:
        """Return the shards whose head is not their newest segment."""
        with self.lock:
            return [shard for shard in self.ledger.shards() if not self.up_to_date(shard)]

    def up_to_date(self, shard: int) -> bool:
        """Return whether a shard's head is its newest segment."""
        head = self.memory.head(shard)
        return head is not None and head.key == self.ledger.lineage(shard).last

    def head_blob(self, shard: int) -> bytes | None:
        """Return the bytes of a shard's head; None if it has none.

        Raises
        ------
        DamageError
            If the head is damaged (see `load`).
        """
        with self.lock:
            head = self.memory.head(shard)
            return None if head is None else self.load(head.key)

    def load(self, key: SegmentKey) -> bytes:
        """Return the bytes of a stored sub-model.

        A damaged sub-model is removed from the memory: the shard falls back on an older one until a repair.

        Raises
        ------
        DamageError
            If the sub-model is damaged, or if the writing process has destroyed it.
        """
        try:
            return self.memory.shelf.get(key)
        except DamageError:
            if self.refresh_if_reader():
                raise  # the writing process has destroyed it
            self.touch([key.shard])  # a training that started from it starts again
            self.memory.discard(key)
            self.journal.discarded(key)
            raise

    # Changes

    def touch(self, shards: Iterable[int]) -> None:
        """Record a change of these shards: trainings that began before it are no longer current."""
        self.changes += 1
        self._touched.update(dict.fromkeys(shards, self.changes))

    def current(self, shard: int, since: int) -> bool:
        """Return whether a shard is unchanged since the change number `since`: nothing forgotten, nothing damaged."""
        return max(self._touched.get(shard, 0), self._last_reload) <= since

    def sending(self, shard: int) -> Callable[[float], None]:
        """Return a function that records, durably, that samples of a shard are about to be sent to another machine.

        It takes the seconds that a worker there may outlive this process.
        """

        def record(seconds: float) -> None:
            with self.lock:
                self.journal.sending(shard, seconds)

        return record

    def reload(self) -> None:
        """Load ledger and memory from the disk again, after an error; a device in memory does nothing.

        If the disk refuses, `ensure_loaded` tries again.
        """
        if self._storage is not None:
            self.changes += 1
            self._last_reload = self.changes
            self._half_loaded = True
            self._storage.load(self.memory)
            self._half_loaded = False
            self._storage.finish()

    def ensure_loaded(self) -> None:
        """Load ledger and memory again if the last reload failed; every call of a device begins with it.

        Raises
        ------
        CauseError
            If the disk refuses again.
        """
        if self._half_loaded:
            with self.lock:
                if self._half_loaded:
                    self.reload()

    def refresh_if_reader(self) -> bool:
        """Take over what the writing process has changed; return whether it changed anything.

        A device that writes does nothing.
        """
        if self._storage is None or not self._storage.read_only:
            return False
        with self.lock:
            changed = self._storage.refresh(self.memory)
            self.reader_refreshes += changed
            return changed

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=RLock())
