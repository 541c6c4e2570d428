"""The policy that evicts a random sub-model, drawn with a seed."""

from cause.common.hashing import keyed_int
from cause.engine.memory.base import MemoryView, Policy, PolicySetting
from cause.engine.samples import SegmentKey


class Random(Policy):
    """Evicts a sub-model that is not pinned, drawn by a keyed hash of the number of draws so far.

    >>> Random(PolicySetting(slots=3, key=b"k")).state()
    {'draws': 0}
    """

    def __init__(self, setting: PolicySetting) -> None:
        super().__init__(setting)
        self._draws = 0

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        while True:  # few slots are pinned, so few draws have to be repeated
            self._draws += 1
            slot = keyed_int(self.setting.key, self._draws) % self.setting.slots
            if memory.evictable(slot, newcomer):
                return slot

    def state(self) -> dict[str, int]:
        return {"draws": self._draws}

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        self._draws = state.get("draws", 0)
