"""The policy of a memory without limit, to compare with."""

from cause.engine.memory.base import MemoryView, Policy
from cause.engine.samples import SegmentKey
from cause.errors import BudgetError


class Unlimited(Policy):
    """Keeps every sub-model: no other policy retrains less."""

    bounded = False

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        raise BudgetError("an unlimited memory is never full")
