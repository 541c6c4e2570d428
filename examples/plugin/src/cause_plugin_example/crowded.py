"""A policy that keeps the shards' shares of the memory even."""

from cause.engine.memory import MemoryView, Policy
from cause.engine.samples import SegmentKey


class Crowded(Policy):
    """The oldest sub-model that may go of the shard that has the most, so that no shard loses its whole past.

    It follows from what is stored, so there is no state to keep.
    """

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        def order(key: SegmentKey) -> tuple[int, SegmentKey]:
            return -len(memory.stored_of(key.shard)), key

        return memory.slot_of(min(memory.candidates(newcomer), key=order))
