"""FiboR exactly as the paper's Algorithm 2 is printed."""

from cause.engine.memory.base import MemoryView
from cause.engine.memory.fibor import FiboR
from cause.engine.samples import SegmentKey


class FiboRPrinted(FiboR):
    """FiboR whose indices restart for each round and each request; heads are apart, and their slots are replaced too.

    As printed, I_replace and I_FiboR are set to 1 and 0 in each call, and the algorithm knows no heads: the newest
    sub-model of a shard is replaced like any other. Its shard goes on from a copy beside the N slots.
    """

    heads_apart = True

    def begin(self) -> None:
        self._at, self._jumps, self._f, self._following = 0, 0, 0, 1

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        for _ in range(self.setting.slots):
            if memory.evictable(self.jump(), newcomer):
                return self._at
        return super().victim(newcomer, memory)  # slots are empty: further victims are needed for their bytes
