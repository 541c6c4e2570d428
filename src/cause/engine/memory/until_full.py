"""The policy of the paper's baselines as printed: store until the memory is full, then no more."""

from cause.engine.memory.base import MemoryView, Policy
from cause.engine.samples import SegmentKey
from cause.errors import BudgetError


class UntilFull(Policy):
    """Stores sub-models until the N slots are full and never replaces one; heads are apart from the slots.

    A slot becomes free again when its sub-model is destroyed by a request.
    """

    heads_apart = True

    def takes(self, newcomer: SegmentKey, memory: MemoryView) -> bool:
        return len(memory.candidates(newcomer)) < memory.slots

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        own = [key for key in memory.candidates(newcomer) if key.shard == newcomer.shard]
        keys = own or memory.candidates(newcomer)
        if not keys:
            raise BudgetError(f"no sub-model can make room for {newcomer}")
        return memory.slot_of(max(keys, key=lambda key: (key.round, key.slice, key.shard)))
