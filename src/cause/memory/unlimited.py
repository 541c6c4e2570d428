"""The floor: a memory without bounds."""

from cause.errors import BudgetError
from cause.memory.base import MemoryView, Policy
from cause.samples import SegmentKey


class Unlimited(Policy):
    """Keeps every sub-model: no policy can retrain less."""

    bounded = False

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        raise BudgetError("an unlimited memory is never full")
