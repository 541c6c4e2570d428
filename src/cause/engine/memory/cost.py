"""Evict what costs least to lose: ours."""

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
        own = memory.stored_of(newcomer.shard)
        if own:  # the predecessor is no head any more
            options = [*options, (self._score(own, len(own) - 1, newcomer, memory), own[-1])]
        return memory.slot_of(min(options)[1])

    def stored(self, key: SegmentKey, memory: MemoryView) -> None:
        own = memory.stored_of(key.shard)
        if len(own) > 1:
            self._keep(own, len(own) - 2, memory)

    def removed(self, key: SegmentKey, memory: MemoryView) -> None:
        self._scores.pop(key, None)
        own = memory.stored_of(key.shard)
        after = bisect_left(own, key)
        if after == len(own):  # it was the newest: the one before is now, and a head has no score
            if own:
                self._scores.pop(own[-1], None)
            return
        if after > 0:
            self._keep(own, after - 1, memory)
        if after < len(own) - 1:
            self._keep(own, after, memory)

    def purge(self) -> None:
        self._renew()  # outdated scores are statistics of deleted samples

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        self._scores, self._heap = {}, []
        for shard in memory.shards():
            own = memory.stored_of(shard)
            for at in range(len(own) - 1):
                self._keep(own, at, memory)

    def _keep(self, own: Sequence[SegmentKey], at: int, memory: MemoryView) -> None:
        key, score = own[at], self._score(own, at, own[at + 1], memory)
        self._scores[key] = score
        heapq.heappush(self._heap, (score, key))
        if len(self._heap) > 64 + 4 * len(self._scores):
            self._renew()

    def _renew(self) -> None:
        self._heap = [(score, key) for key, score in self._scores.items()]
        heapq.heapify(self._heap)

    @staticmethod
    def _score(own: Sequence[SegmentKey], at: int, following: SegmentKey, memory: MemoryView) -> int:
        key, before = own[at], own[at - 1] if at else None
        restarts = memory.samples_between(key.shard, key, following)
        return restarts * memory.samples_between(key.shard, before, key)
