"""The bounded memory: slots and bytes that are never exceeded, heads that never go."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cause.common.units import format_bytes
from cause.engine.memory.base import Policy
from cause.engine.memory.shelves import MemoryShelf, Shelf
from cause.engine.samples import SegmentKey
from cause.errors import BudgetError, PolicyError

SamplesBetween = Callable[[int, SegmentKey | None, SegmentKey], int]


@dataclass(frozen=True, slots=True)
class SubModel:
    """A stored sub-model: which, what it is (the digest of all that made it), its size, and where bits are its own."""

    key: SegmentKey
    identity: bytes
    size_bytes: int
    environment: str = ""


class Memory:
    """The sub-models that are kept. Free slots first, lowest index; then the policy names who goes."""

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
        self._vacated: list[int] = []  # used before and free again, ascending
        self._slot_of: dict[SegmentKey, int] = {}
        self._stored_of: dict[int, list[SegmentKey]] = {}  # only of shards that have any; the last is the head

    def restore(self, stored: Iterable[tuple[int, SubModel]], policy: dict[str, int]) -> None:
        """Go on with what an earlier process stored, and with the state of its policy.

        From here on the memory admits and evicts as the one that was stored would have.

        Parameters
        ----------
        stored
            Every stored sub-model with its slot.
        policy
            What `Policy.state` returned; `{}` before anything was stored, and for policies that need none.

        Raises
        ------
        BudgetError
            If a sub-model lies in a slot that this memory does not have.
        """
        taken = dict(stored)
        needed = max(taken, default=-1) + 1
        if needed > self.slots:
            raise BudgetError(
                f"{needed} of the memory's slots are in use, and only {self.slots} are configured: "
                f"set `slots` (or `memory`) back to at least {needed}"
            )
        self._slots = [taken.get(slot) for slot in range(needed)]
        self._vacated = [slot for slot, sub_model in enumerate(self._slots) if sub_model is None]
        self._slot_of = {sub_model.key: slot for slot, sub_model in taken.items()}
        self._stored_of = {}
        for key in sorted(self._slot_of):
            self._stored_of.setdefault(key.shard, []).append(key)
        self.used_bytes = sum(sub_model.size_bytes for sub_model in taken.values())
        self.policy.restore(policy, self)

    # What is there

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
        """The size of the largest stored sub-model: one such copy exists beside the budget while it is admitted."""
        return max((sub_model.size_bytes for sub_model in self._slots if sub_model), default=0)

    def stored(self) -> list[SegmentKey]:
        """Every stored sub-model, sorted."""
        return sorted(self._slot_of)

    def shards(self) -> list[int]:
        """The shards that have a sub-model."""
        return sorted(self._stored_of)

    def head(self, shard: int) -> SubModel | None:
        """A shard's newest stored sub-model."""
        own = self._stored_of.get(shard)
        return self[own[-1]] if own else None

    def newest_before(self, key: SegmentKey) -> SegmentKey | None:
        """The restart point: the newest stored sub-model of the shard before this segment."""
        own = self._stored_of.get(key.shard, [])
        at = bisect_left(own, key)
        return own[at - 1] if at else None

    # What a policy may look at

    def _occupant(self, slot: int) -> SegmentKey | None:
        sub_model = self._slots[slot] if slot < len(self._slots) else None
        return sub_model.key if sub_model else None

    def slot_of(self, key: SegmentKey) -> int:
        return self._slot_of[key]

    def stored_of(self, shard: int) -> Sequence[SegmentKey]:
        return self._stored_of.get(shard, [])

    def evictable(self, slot: int, newcomer: SegmentKey) -> bool:
        key = self._occupant(slot)
        return key is not None and (key.shard == newcomer.shard or self._stored_of[key.shard][-1] != key)

    def candidates(self, newcomer: SegmentKey) -> list[SegmentKey]:
        return [sm.key for slot, sm in enumerate(self._slots) if sm and self.evictable(slot, newcomer)]

    # What changes

    def admit(self, newcomer: SubModel, blob: bytes) -> list[SegmentKey]:
        """Store a shard's new head in the lowest free slot, or else in that of the first sub-model evicted for it.

        Parameters
        ----------
        newcomer
            The sub-model's record.
        blob
            Its bytes, for the shelf.

        Returns
        -------
        The sub-models that were evicted to make room, in that order.

        Raises
        ------
        BudgetError
            If it does not fit beside the heads of the other shards. Nothing is evicted then.
        """
        self._refuse_what_cannot_fit(newcomer)
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
        """Let go of one sub-model that turned out to be damaged."""
        self._remove(key)
        self.shelf.destroy(key)

    def drop_from(self, key: SegmentKey) -> list[SegmentKey]:
        """Destroy a shard's sub-models at or after a segment: they may have seen what is being forgotten."""
        own = self._stored_of.get(key.shard, [])
        tainted = own[bisect_left(own, key) :]
        for each in reversed(tainted):
            self._remove(each)
        self.policy.purge()
        for each in tainted:
            self.shelf.destroy(each)
        return tainted

    def _lowest_free(self) -> int:
        return self._vacated[0] if self._vacated else len(self._slots)

    def _refuse_what_cannot_fit(self, newcomer: SubModel) -> None:
        """Before anything is evicted: is there room beside the heads of the other shards?"""
        heads = [self[own[-1]] for shard, own in self._stored_of.items() if shard != newcomer.key.shard]
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

    def _put(self, newcomer: SubModel, blob: bytes, slot: int) -> None:
        self.shelf.put(newcomer.key, blob)  # first: when it fails, nothing is booked
        if slot == len(self._slots):
            self._slots.append(None)
        else:
            del self._vacated[bisect_left(self._vacated, slot)]
        self._slots[slot] = newcomer
        self._slot_of[newcomer.key] = slot
        insort(self._stored_of.setdefault(newcomer.key.shard, []), newcomer.key)
        self.used_bytes += newcomer.size_bytes

    def _remove(self, key: SegmentKey) -> None:
        """Out of the books, and so out of service; its bytes are destroyed after it."""
        self.used_bytes -= self[key].size_bytes
        slot = self._slot_of.pop(key)
        self._slots[slot] = None
        insort(self._vacated, slot)
        own = self._stored_of[key.shard]
        del own[bisect_left(own, key)]
        if not own:
            del self._stored_of[key.shard]
        self.policy.removed(key, self)
