"""SISA's policy: only the newest sub-model of each shard is stored."""

from cause.engine.memory.base import MemoryView, Policy
from cause.engine.samples import SegmentKey
from cause.errors import BudgetError


class Latest(Policy):
    """A newcomer always replaces its predecessor: one sub-model a shard, and every replay starts from scratch."""

    def supersedes(self, newcomer: SegmentKey, memory: MemoryView) -> int | None:
        keys = memory.stored_of(newcomer.shard)
        return memory.slot_of(keys[-1]) if keys else None

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        raise BudgetError("a memory with one sub-model a shard is full of heads")
