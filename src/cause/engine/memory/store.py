"""The bounded memory: it never exceeds its slots and bytes, and never evicts another shard's head."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cause.common.units import format_bytes
from cause.engine.memory.base import Policy
from cause.engine.memory.shelves import LazyShelf, MemoryShelf, Shelf
from cause.engine.samples import SegmentKey
from cause.errors import BudgetError, PolicyError

SamplesBetween = Callable[[int, SegmentKey | None, SegmentKey], int]
"""Counts a shard's retained samples after one segment (None: from the first), up to another."""


@dataclass(frozen=True, slots=True)
class SubModel:
    """A stored sub-model, without its bytes."""

    key: SegmentKey
    """The last segment that it was trained on."""
    identity: bytes
    """Digest of everything that it was made from."""
    size_bytes: int
    environment: str = ""
    """The machine and software on which a training gives the same bits (`Learner.environment`)."""


class Memory:
    """The stored sub-models. A newcomer takes the lowest free slot; if there is none, the policy chooses a victim.

    Parameters
    ----------
    policy
        Chooses the sub-models to evict.
    slots, budget_bytes
        The limits.
    samples_between
        Counts retained samples, for the policy.
    shelf
        Stores the bytes; by default in the process's memory.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        slots: int,
        budget_bytes: int,
        samples_between: SamplesBetween,
        shelf: Shelf | None = None,
    ) -> None:
        self.policy = policy
        self.slots = slots
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.samples_between = samples_between
        self.shelf: Shelf = MemoryShelf() if shelf is None else shelf
        self._slots: list[SubModel | None] = []  # grows up to N as slots are first used
        self._vacated: list[int] = []  # free slots that were in use before, ascending
        self._slot_of: dict[SegmentKey, int] = {}
        self._stored_of: dict[int, list[SegmentKey]] = {}  # by shard, no empty lists; the last key is the head

    def restore(self, stored: Iterable[tuple[int, SubModel]], policy: dict[str, int]) -> None:
        """Replace the contents by what an earlier process stored, and the policy's state by that of its policy.

        Afterwards this memory stores and evicts exactly as that of the earlier process would have.

        Parameters
        ----------
        stored
            Every stored sub-model with its slot.
        policy
            What `Policy.state` returned; `{}` if it has no state.

        Raises
        ------
        BudgetError
            If a sub-model is in a slot that this memory does not have.
        """
        by_slot = dict(stored)
        needed = max(by_slot, default=-1) + 1
        if needed > self.slots:
            raise BudgetError(
                f"{needed} of the memory's slots are in use, and only {self.slots} are configured: "
                f"set `slots` (or `memory`) back to at least {needed}"
            )
        self._slots = [by_slot.get(slot) for slot in range(needed)]
        self._vacated = [slot for slot, sub_model in enumerate(self._slots) if sub_model is None]
        self._slot_of = {sub_model.key: slot for slot, sub_model in by_slot.items()}
        self._stored_of = {}
        for key in sorted(self._slot_of):
            self._stored_of.setdefault(key.shard, []).append(key)
        self.used_bytes = sum(sub_model.size_bytes for sub_model in by_slot.values())
        self.policy.restore(policy, self)

    # Reading

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, key: SegmentKey) -> bool:
        return key in self._slot_of

    def __getitem__(self, key: SegmentKey) -> SubModel:
        sub_model = self._slots[self._slot_of[key]]
        assert sub_model is not None
        return sub_model

    @property
    def in_flight_bytes(self) -> int:
        """The size of the largest stored sub-model: while it is stored, a copy of it exists outside the budget."""
        return max((sub_model.size_bytes for sub_model in self._slots if sub_model), default=0)

    def stored(self) -> list[SegmentKey]:
        """Return the keys of all stored sub-models, sorted."""
        return sorted(self._slot_of)

    def shards(self) -> list[int]:
        """Return the shards that have a stored sub-model, ascending."""
        return sorted(self._stored_of)

    def head(self, shard: int) -> SubModel | None:
        """Return a shard's newest stored sub-model; None if it has none."""
        keys = self._stored_of.get(shard)
        return self[keys[-1]] if keys else None

    def newest_before(self, key: SegmentKey) -> SegmentKey | None:
        """Return the restart point: the shard's newest stored sub-model before a segment; None if there is none."""
        keys = self._stored_of.get(key.shard, [])
        index = bisect_left(keys, key)
        return keys[index - 1] if index else None

    # Reading, for the policy (`MemoryView`)

    def _occupant(self, slot: int) -> SegmentKey | None:
        sub_model = self._slots[slot] if slot < len(self._slots) else None
        return sub_model.key if sub_model else None

    def slot_of(self, key: SegmentKey) -> int:
        """Return the slot of a stored sub-model."""
        return self._slot_of[key]

    def stored_of(self, shard: int) -> Sequence[SegmentKey]:
        """Return a shard's stored sub-models, oldest first; the last one is its head."""
        return self._stored_of.get(shard, [])

    def evictable(self, slot: int, newcomer: SegmentKey) -> bool:
        """Return whether the slot holds a sub-model that may be evicted: not the head of another shard."""
        key = self._occupant(slot)
        return key is not None and (key.shard == newcomer.shard or self._stored_of[key.shard][-1] != key)

    def candidates(self, newcomer: SegmentKey) -> list[SegmentKey]:
        """Return the evictable sub-models, in the order of their slots."""
        return [
            sub_model.key for slot, sub_model in enumerate(self._slots) if sub_model and self.evictable(slot, newcomer)
        ]

    # Changes

    def admit(self, newcomer: SubModel, blob: bytes | Callable[[], bytes]) -> list[SegmentKey]:
        """Store a shard's new head, in the lowest free slot or in that of the first evicted sub-model.

        Parameters
        ----------
        newcomer
            The sub-model.
        blob
            Its bytes; or a function that makes them, which a lazy shelf calls when they are needed.

        Returns
        -------
        list of SegmentKey
            The evicted sub-models.

        Raises
        ------
        BudgetError
            If it does not fit beside the heads of the other shards; then nothing is evicted.
        PolicyError
            If the policy chose a slot that is not evictable.
        """
        self._check_fits(newcomer)
        evicted: list[SegmentKey] = []
        slot = self.policy.supersedes(newcomer.key, self)
        if slot is not None:
            evicted.append(self._evict(slot, newcomer))
        elif len(self) < self.slots:
            slot = self._lowest_free()
        while len(self) == self.slots or self.used_bytes + newcomer.size_bytes > self.budget_bytes:
            victim = self.policy.victim(newcomer.key, self)
            evicted.append(self._evict(victim, newcomer))
            slot = victim if slot is None else slot
        assert slot is not None
        self._put(newcomer, blob, slot)
        self.policy.stored(newcomer.key, self)
        return evicted

    def discard(self, key: SegmentKey) -> None:
        """Remove a sub-model that is damaged, or that a newer one replaces."""
        self._remove(key)
        self.shelf.destroy(key)

    def drop_from(self, key: SegmentKey) -> list[SegmentKey]:
        """Destroy a shard's sub-models at or after a segment, which may have seen samples that are forgotten.

        Returns
        -------
        list of SegmentKey
            The destroyed sub-models.
        """
        keys = self._stored_of.get(key.shard, [])
        tainted = keys[bisect_left(keys, key) :]
        for sub_model in reversed(tainted):
            self._remove(sub_model)
        self.policy.purge()
        for sub_model in tainted:
            self.shelf.destroy(sub_model)
        return tainted

    def _lowest_free(self) -> int:
        return self._vacated[0] if self._vacated else len(self._slots)

    def _check_fits(self, newcomer: SubModel) -> None:
        """Raise a `BudgetError` if a newcomer does not fit beside the heads of the other shards."""
        heads = [self[keys[-1]] for shard, keys in self._stored_of.items() if shard != newcomer.key.shard]
        pinned_bytes = sum(head.size_bytes for head in heads)
        if len(heads) + 1 > self.slots or pinned_bytes + newcomer.size_bytes > self.budget_bytes:
            raise BudgetError(
                f"sub-model {newcomer.key} of {format_bytes(newcomer.size_bytes)} does not fit beside the other "
                f"shards' {len(heads)} heads in {format_bytes(self.budget_bytes)} and {self.slots} slots"
            )

    def _evict(self, slot: int, newcomer: SubModel) -> SegmentKey:
        key = self._occupant(slot)
        if key is None or not self.evictable(slot, newcomer.key):
            name = type(self.policy).__name__
            raise PolicyError(f"{name} named slot {slot + 1} for {newcomer.key}: {'pinned' if key else 'empty'}")
        self._remove(key)
        self.shelf.destroy(key)
        return key

    def _put(self, newcomer: SubModel, blob: bytes | Callable[[], bytes], slot: int) -> None:
        if not callable(blob):
            self.shelf.put(newcomer.key, blob)  # first: if it fails, nothing has changed
        elif isinstance(self.shelf, LazyShelf):
            self.shelf.put_later(newcomer.key, blob)
        else:
            self.shelf.put(newcomer.key, blob())
        if slot == len(self._slots):
            self._slots.append(None)
        else:
            del self._vacated[bisect_left(self._vacated, slot)]
        self._slots[slot] = newcomer
        self._slot_of[newcomer.key] = slot
        insort(self._stored_of.setdefault(newcomer.key.shard, []), newcomer.key)
        self.used_bytes += newcomer.size_bytes

    def _remove(self, key: SegmentKey) -> None:
        """Take a sub-model out of service. The caller destroys its bytes afterwards."""
        self.used_bytes -= self[key].size_bytes
        slot = self._slot_of.pop(key)
        self._slots[slot] = None
        insort(self._vacated, slot)
        keys = self._stored_of[key.shard]
        del keys[bisect_left(keys, key)]
        if not keys:
            del self._stored_of[key.shard]
        self.policy.removed(key, self)
