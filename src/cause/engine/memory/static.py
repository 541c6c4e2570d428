"""No replacement, as in systems that stop storing when memory is full."""

from cause.engine.memory.base import MemoryView, Policy
from cause.engine.samples import SegmentKey


class Static(Policy):
    """When full the newcomer takes the slot of its shard's newest, so the oldest sub-models stay for ever.

    With none of its shard stored, it takes that of the newest sub-model that is no head.
    """

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        own = memory.stored_of(newcomer.shard)
        if own:
            return memory.slot_of(own[-1])
        newest = max(memory.candidates(newcomer), key=lambda key: (key.round, key.slice, key.shard))
        return memory.slot_of(newest)
