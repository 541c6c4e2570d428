"""The policy without replacement, as in systems that stop storing when the memory is full."""

from cause.engine.memory.base import MemoryView, Policy
from cause.engine.samples import SegmentKey


class Static(Policy):
    """When full, the newcomer takes the slot of its shard's newest sub-model, so the oldest ones stay for ever.

    If its shard has no sub-model, it takes the slot of the newest one that is no head.
    """

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        keys = memory.stored_of(newcomer.shard)
        if keys:
            return memory.slot_of(keys[-1])
        newest = max(memory.candidates(newcomer), key=lambda key: (key.round, key.slice, key.shard))
        return memory.slot_of(newest)
