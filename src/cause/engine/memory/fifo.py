"""The policy first in, first out."""

from cause.engine.memory.base import MemoryView, Policy, PolicySetting
from cause.engine.samples import SegmentKey


class Fifo(Policy):
    """A pointer walks over the slots, one past each victim, and skips pinned ones: only the newest stay.

    >>> Fifo(PolicySetting(slots=3, key=b"")).state()
    {'at': 0}
    """

    def __init__(self, setting: PolicySetting) -> None:
        super().__init__(setting)
        self._at = 0

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        for step in range(self.setting.slots):
            slot = (self._at + step) % self.setting.slots
            if memory.evictable(slot, newcomer):
                break
        self._at = (slot + 1) % self.setting.slots
        return slot

    def state(self) -> dict[str, int]:
        return {"at": self._at}

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        self._at = state.get("at", 0)
