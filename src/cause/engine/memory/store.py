"""The bounded memory: it never exceeds its slots and bytes, and never destroys another shard's head."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cause.common.units import format_bytes
from cause.engine.memory.base import Policy
from cause.engine.memory.shelves import MemoryShelf, Shelf
from cause.engine.samples import SegmentKey
from cause.errors import BudgetError, PolicyError


class Counts(Protocol):
    """What a memory's policy may know of the ledger."""

    @property
    def round(self) -> int:
        """The number of the last round."""

    def samples_between(self, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
        """Return the number of retained samples in a shard's segments after `after` (None: all), up to `upto`."""

    def segments_of(self, shard: int) -> Sequence[tuple[SegmentKey, int]]:
        """Return a shard's segments and their retained samples, oldest first."""


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

    With a policy whose heads are apart, the place of shard s has the number N + s: a head that has no slot, or has lost
    it, is there until its shard has a newer one.

    Parameters
    ----------
    policy
        Chooses the sub-models to evict.
    slots, budget_bytes
        The limits; the bytes are of the slots and of the places of heads apart.
    counts
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
        counts: Counts,
        shelf: Shelf | None = None,
    ) -> None:
        self.policy = policy
        self.slots = slots
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.counts = counts
        self.shelf: Shelf = MemoryShelf() if shelf is None else shelf
        self._sub_models: dict[SegmentKey, SubModel] = {}
        self._slots: list[SegmentKey | None] = []  # grows up to N as slots are first used
        self._vacated: list[int] = []  # free slots that were in use before, ascending
        self._slot_of: dict[SegmentKey, int] = {}
        self._stored_of: dict[int, list[SegmentKey]] = {}  # by shard, no empty lists; the last key is the head
        self.environments: dict[int, str] = {}
        """The environment of each shard for which one is recorded (`cause.engine.environments`)."""

    def restore(
        self, stored: Iterable[tuple[int, SubModel]], policy: dict[str, int], environments: Mapping[int, str]
    ) -> None:
        """Replace the contents by what an earlier process stored, and the policy's state by that of its policy.

        Afterwards this memory stores and evicts exactly as that of the earlier process would have.

        Parameters
        ----------
        stored
            Every stored sub-model with its slot.
        policy
            What `Policy.state` returned; `{}` if it has no state.
        environments
            The recorded environments of shards.

        Raises
        ------
        BudgetError
            If a sub-model is in a slot that this memory does not have.
        """
        everything = dict(stored)
        places = {slot for slot in everything if self.policy.heads_apart and slot >= self.slots}
        by_slot = {slot: sub_model.key for slot, sub_model in everything.items() if slot not in places}
        needed = max(by_slot, default=-1) + 1
        if needed > self.slots:
            raise BudgetError(
                f"{needed} of the memory's slots are in use, and only {self.slots} are configured: "
                f"set `slots` (or `memory`) back to at least {needed}"
            )
        self._slots = [by_slot.get(slot) for slot in range(needed)]
        self._vacated = [slot for slot, key in enumerate(self._slots) if key is None]
        self._sub_models = {sub_model.key: sub_model for sub_model in everything.values()}
        self.environments = dict(environments)
        self._slot_of = {sub_model.key: slot for slot, sub_model in everything.items()}
        self._stored_of = {}
        for key in sorted(self._slot_of):
            self._stored_of.setdefault(key.shard, []).append(key)
        self.used_bytes = sum(sub_model.size_bytes for sub_model in everything.values())
        self.policy.restore(policy, self)

    # Reading

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, key: SegmentKey) -> bool:
        return key in self._slot_of

    def __getitem__(self, key: SegmentKey) -> SubModel:
        return self._sub_models[key]

    @property
    def in_flight_bytes(self) -> int:
        """The size of the largest stored sub-model: while it is stored, a copy of it exists outside the budget."""
        return max((sub_model.size_bytes for sub_model in self._sub_models.values()), default=0)

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

    @property
    def round(self) -> int:
        """The number of the current round."""
        return self.counts.round

    def samples_between(self, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
        """Return the number of retained samples in a shard's segments after `after` (None: all), up to `upto`."""
        return self.counts.samples_between(shard, after, upto)

    def segments_of(self, shard: int) -> Sequence[tuple[SegmentKey, int]]:
        """Return a shard's segments and their retained samples, oldest first."""
        return self.counts.segments_of(shard)

    def _occupant(self, slot: int) -> SegmentKey | None:
        return self._slots[slot] if slot < len(self._slots) else None

    def slot_of(self, key: SegmentKey) -> int:
        """Return the slot of a stored sub-model; from N on, the place of a head apart."""
        return self._slot_of[key]

    def stored_of(self, shard: int) -> Sequence[SegmentKey]:
        """Return a shard's stored sub-models, oldest first; the last one is its head."""
        return self._stored_of.get(shard, [])

    def evictable(self, slot: int, newcomer: SegmentKey) -> bool:
        """Return whether the slot holds a sub-model that may be evicted: not the head of another shard."""
        key = self._occupant(slot)
        if key is None:
            return False
        return self.policy.heads_apart or key.shard == newcomer.shard or self._stored_of[key.shard][-1] != key

    def candidates(self, newcomer: SegmentKey) -> list[SegmentKey]:
        """Return the evictable sub-models, in the order of their slots."""
        return [key for slot, key in enumerate(self._slots) if key and self.evictable(slot, newcomer)]

    def apart(self) -> list[SegmentKey]:
        """Return the heads that have no slot, ascending; with most policies there are none."""
        if not self.policy.heads_apart:
            return []
        return sorted(key for key, slot in self._slot_of.items() if slot >= self.slots)

    # Changes

    def admit(
        self, newcomer: SubModel, blob: bytes | Callable[[], bytes], instead_of: SegmentKey | None = None
    ) -> list[SegmentKey]:
        """Store a shard's new head, in the lowest free slot or in that of the first evicted sub-model.

        Parameters
        ----------
        newcomer
            The new head.
        blob
            Its bytes; or a function that makes them, which the shelf calls when they are needed.
        instead_of
            A sub-model of the shard whose place the newcomer takes, if it is stored.

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
        slot = self._superseded(newcomer, instead_of, evicted)
        if slot is None and self.policy.heads_apart and not self.policy.takes(newcomer.key, self):
            slot = self._place(newcomer.key)
        elif slot is None and self._free():
            slot = self._lowest_free()
        while (slot is None and not self._free()) or self.used_bytes + newcomer.size_bytes > self.budget_bytes:
            victim = self.policy.victim(newcomer.key, self)
            evicted += self._evict(victim, newcomer)
            slot = victim if slot is None else slot
        assert slot is not None
        self._put(newcomer, blob, slot)
        self.policy.stored(newcomer.key, self)
        return evicted

    def _superseded(self, newcomer: SubModel, instead_of: SegmentKey | None, evicted: list[SegmentKey]) -> int | None:
        """Remove the sub-model that the newcomer takes over from, if any; return its slot, if it had one."""
        place = self._place(newcomer.key)
        own = self._stored_of.get(newcomer.key.shard)
        if own and self._slot_of[own[-1]] == place:  # the place of the shard's head is the newcomer's now
            taken_over = own[-1] == instead_of
            evicted.append(self._destroy(own[-1]))
            if taken_over:
                return place
        if instead_of is not None and instead_of in self:
            slot = self._slot_of[instead_of]
        else:
            slot_or_none = self.policy.supersedes(newcomer.key, self)
            if slot_or_none is None:
                return None
            slot = slot_or_none
        evicted += self._evict(slot, newcomer)
        return slot

    def discard(self, key: SegmentKey) -> None:
        """Remove a sub-model that is damaged, or that a newer one replaces."""
        self._destroy(key)

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

    def _place(self, key: SegmentKey) -> int:
        """Return the number of the place that the head of a sub-model's shard has apart from the slots."""
        return self.slots + key.shard

    def _free(self) -> bool:
        """Return whether a slot is free."""
        return bool(self._vacated) or len(self._slots) < self.slots

    def _lowest_free(self) -> int:
        return self._vacated[0] if self._vacated else len(self._slots)

    def _check_fits(self, newcomer: SubModel) -> None:
        """Raise a `BudgetError` if a newcomer does not fit beside the heads of the other shards."""
        heads = [self[keys[-1]] for shard, keys in self._stored_of.items() if shard != newcomer.key.shard]
        pinned_bytes = sum(head.size_bytes for head in heads)
        most = self.slots + (len(heads) + 1) * self.policy.heads_apart
        if len(heads) + 1 > most or pinned_bytes + newcomer.size_bytes > self.budget_bytes:
            raise BudgetError(
                f"sub-model {newcomer.key} of {format_bytes(newcomer.size_bytes)} does not fit beside the other "
                f"shards' {len(heads)} heads in {format_bytes(self.budget_bytes)} and {self.slots} slots"
            )

    def _evict(self, slot: int, newcomer: SubModel) -> list[SegmentKey]:
        """Empty a slot; return the sub-model that was destroyed, none if it is a head that now is apart."""
        key = self._occupant(slot)
        if key is None or not self.evictable(slot, newcomer.key):
            name = type(self.policy).__name__
            raise PolicyError(f"{name} named slot {slot + 1} for {newcomer.key}: {'pinned' if key else 'empty'}")
        if key.shard != newcomer.key.shard and self._stored_of[key.shard][-1] == key:
            self._vacate(slot)
            self._slot_of[key] = self._place(key)
            return []
        return [self._destroy(key)]

    def _destroy(self, key: SegmentKey) -> SegmentKey:
        self._remove(key)
        self.shelf.destroy(key)
        return key

    def _put(self, newcomer: SubModel, blob: bytes | Callable[[], bytes], slot: int) -> None:
        if callable(blob):  # first: if it fails, nothing has changed
            self.shelf.put_later(newcomer.key, blob)
        else:
            self.shelf.put(newcomer.key, blob)
        if slot < self.slots:
            if slot == len(self._slots):
                self._slots.append(None)
            else:
                del self._vacated[bisect_left(self._vacated, slot)]
            self._slots[slot] = newcomer.key
        self._sub_models[newcomer.key] = newcomer
        self._slot_of[newcomer.key] = slot
        insort(self._stored_of.setdefault(newcomer.key.shard, []), newcomer.key)
        self.used_bytes += newcomer.size_bytes

    def _vacate(self, slot: int) -> None:
        self._slots[slot] = None
        insort(self._vacated, slot)

    def _remove(self, key: SegmentKey) -> None:
        """Take a sub-model out of service. The caller destroys its bytes afterwards."""
        self.used_bytes -= self._sub_models.pop(key).size_bytes
        slot = self._slot_of.pop(key)
        if slot < self.slots:
            self._vacate(slot)
        keys = self._stored_of[key.shard]
        del keys[bisect_left(keys, key)]
        if not keys:
            del self._stored_of[key.shard]
        self.policy.removed(key, self)
