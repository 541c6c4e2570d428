"""Our own policy: evict the sub-model whose loss costs least."""

import heapq
from bisect import bisect_left
from collections.abc import Sequence

from cause.engine.memory.base import MemoryView, Policy, PolicySetting
from cause.engine.samples import SegmentKey


class Cost(Policy):
    """Evicts the sub-model whose loss is expected to add the fewest retrained samples.

    Losing (s,k) makes each request that would restart from it (W: the samples after it, up to the next stored one)
    replay the samples between it and the one before (N). The least W·N goes, ties by (s,k); requests are taken as
    equally likely for each sample.

    Scores are kept, not recomputed: storing or removing a sub-model changes only its neighbours, and a deletion
    touches only segments after a shard's newest clean sub-model, which as a head has no score.
    """

    def __init__(self, setting: PolicySetting) -> None:
        super().__init__(setting)
        self._scores: dict[SegmentKey, int] = {}  # of every stored sub-model but each shard's newest
        self._heap: list[tuple[int, SegmentKey]] = []  # may hold outdated scores

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        while self._heap and self._scores.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        options = self._heap[:1]
        keys = memory.stored_of(newcomer.shard)
        if keys:  # the newcomer replaces its predecessor as the head, so that one may be evicted too
            options = [*options, (self._score(keys, len(keys) - 1, newcomer, memory), keys[-1])]
        return memory.slot_of(min(options)[1])

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

    def purge(self) -> None:
        self._rebuild_heap()  # outdated scores are statistics of deleted samples

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        self._scores, self._heap = {}, []
        for shard in memory.shards():
            keys = memory.stored_of(shard)
            for index in range(len(keys) - 1):
                self._update(keys, index, memory)

    def _update(self, keys: Sequence[SegmentKey], index: int, memory: MemoryView) -> None:
        """Compute the score of one of a shard's stored sub-models anew."""
        key, score = keys[index], self._score(keys, index, keys[index + 1], memory)
        self._scores[key] = score
        heapq.heappush(self._heap, (score, key))
        if len(self._heap) > 64 + 4 * len(self._scores):
            self._rebuild_heap()

    def _rebuild_heap(self) -> None:
        """Drop outdated scores."""
        self._heap = [(score, key) for key, score in self._scores.items()]
        heapq.heapify(self._heap)

    @staticmethod
    def _score(keys: Sequence[SegmentKey], index: int, following: SegmentKey, memory: MemoryView) -> int:
        key, before = keys[index], keys[index - 1] if index else None
        restarts = memory.samples_between(key.shard, key, following)
        return restarts * memory.samples_between(key.shard, before, key)
