"""The base class of policies that evict the sub-model with the least score."""

import heapq
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence

from cause.engine.memory.base import MemoryView, Policy, PolicySetting
from cause.engine.samples import SegmentKey


class ScoredPolicy(Policy):
    """Keeps a score for every stored sub-model but each shard's newest, and knows the least one.

    Scores are kept, not recomputed: storing or removing a sub-model changes only its neighbours in the shard.
    """

    def __init__(self, setting: PolicySetting) -> None:
        super().__init__(setting)
        self._scores: dict[SegmentKey, float] = {}
        self._heap: list[tuple[float, SegmentKey]] = []  # may hold outdated scores

    def stored(self, key: SegmentKey, memory: MemoryView) -> None:
        keys = memory.stored_of(key.shard)
        if len(keys) > 1:
            self._update(keys, len(keys) - 2, memory)

    def removed(self, key: SegmentKey, memory: MemoryView) -> None:
        self._scores.pop(key, None)
        keys = memory.stored_of(key.shard)
        after = bisect_left(keys, key)
        if after == len(keys):  # it was the head: the one before becomes the head, and a head has no score
            if keys:
                self._scores.pop(keys[-1], None)
            return
        if after > 0:
            self._update(keys, after - 1, memory)
        if after < len(keys) - 1:
            self._update(keys, after, memory)

    @abstractmethod
    def _update(self, keys: Sequence[SegmentKey], index: int, memory: MemoryView) -> None:
        """Compute the score of one of a shard's stored sub-models anew, and `_put` it."""

    def _least(self) -> tuple[float, SegmentKey] | None:
        """Return the least score and its sub-model; None if there is no score."""
        while self._heap and self._scores.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _put(self, key: SegmentKey, score: float) -> None:
        self._scores[key] = score
        heapq.heappush(self._heap, (score, key))
        if len(self._heap) > 64 + 4 * len(self._scores):
            self._rebuild_heap()

    def _rebuild_heap(self) -> None:
        """Drop outdated scores."""
        self._heap = [(score, key) for key, score in self._scores.items()]
        heapq.heapify(self._heap)
