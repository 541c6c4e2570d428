"""FiboR, the Fibonacci-based replacement (the paper's Algorithm 2)."""

from cause.engine.memory.base import MemoryView, Policy, PolicySetting
from cause.engine.samples import SegmentKey


class FiboR(Policy):
    """The replacement index jumps by 0, 1, 2, 3, 5, 8, 13 … slots, so that some slots keep old sub-models long.

    A jump onto a pinned slot counts, and the next one starts from there. After N jumps onto pinned slots the index
    walks on to the next slot that is not pinned.

    Examples
    --------
    >>> policy = FiboR(PolicySetting(slots=8, key=b""))
    >>> [policy.jump() + 1 for _ in range(6)]  # M9 … M14 of the paper's example
    [1, 2, 4, 7, 4, 4]
    """

    def __init__(self, setting: PolicySetting) -> None:
        super().__init__(setting)
        self._at = 0  # I_replace, counted from 0
        self._jumps = 0  # I_FiboR
        self._f, self._following = 0, 1  # f(I_FiboR) and f(I_FiboR + 1), modulo N

    def jump(self) -> int:
        """Move the replacement index by f(I_FiboR) slots, and return it."""
        self._at = (self._at + self._f) % self.setting.slots
        # f has no second 1: after 0 and 1 comes 2.
        after = 2 if self._jumps == 0 else self._f + self._following
        self._f, self._following = self._following, after % self.setting.slots
        self._jumps += 1
        return self._at

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        for _ in range(self.setting.slots):
            if memory.evictable(self.jump(), newcomer):
                return self._at
        for _ in range(self.setting.slots):
            self._at = (self._at + 1) % self.setting.slots
            if memory.evictable(self._at, newcomer):
                break
        return self._at

    def state(self) -> dict[str, int]:
        return {"at": self._at, "jumps": self._jumps, "f": self._f, "following": self._following}

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        self._at, self._jumps = state.get("at", 0), state.get("jumps", 0)
        self._f, self._following = state.get("f", 0), state.get("following", 1)
