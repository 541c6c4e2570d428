"""Our policy that learns: evict the sub-model whose loss costs least under the ages of the requests so far."""

import heapq
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from cause.engine.memory.ages import Floats, RequestAges
from cause.engine.memory.base import MemoryView, Policy, PolicySetting
from cause.engine.samples import SegmentKey


class Adaptive(Policy):
    """Evicts the sub-model whose loss is expected to add the fewest retrained samples, as requests have come so far.

    Losing (s,k) makes each request that would restart from it replay the samples between it and the stored one before.
    How likely such a request is follows from the segments after (s,k) up to the next stored one: the samples of each,
    times how likely its age is to be named. Ages are counted in rounds of the device, so the segments of a frozen shard
    grow old too. `cost` is the same with all ages as likely.

    The state is the number of requests by age, and nothing else of them: see `RequestAges`. Samples that expire by
    their age are no requests and are not counted.

    Examples
    --------
    >>> policy = Adaptive(PolicySetting(slots=8, key=b""))
    >>> policy.ages.add(age=0, oldest=3)
    >>> policy.state()
    {'named_0': 1, 'oldest_3': 1}
    """

    def __init__(self, setting: PolicySetting) -> None:
        super().__init__(setting)
        self.ages = RequestAges()
        self._scores: dict[SegmentKey, float] = {}  # of every stored sub-model but each shard's newest
        self._heap: list[tuple[float, SegmentKey]] = []  # may hold outdated scores
        self._round = -1  # the round that the scores are of; -1 if they must be computed anew
        self._weights: Floats = np.zeros(0)
        self._sums: dict[int, tuple[list[SegmentKey], list[int], list[float]]] = {}  # see `_sums_of`

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        self._refresh(memory)
        while self._heap and self._scores.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        options = self._heap[:1]
        keys = memory.stored_of(newcomer.shard)
        if keys:  # the newcomer replaces its predecessor as the head, so that one may be evicted too
            options = [*options, (self._score(keys, len(keys) - 1, newcomer, memory), keys[-1])]
        return memory.slot_of(min(options)[1])

    def begin(self) -> None:
        self._sums = {}  # a quarantine may have changed segments after the heads; no score depends on those

    def requested(self, first: Sequence[SegmentKey], memory: MemoryView) -> None:
        now = memory.round
        for segment in first:
            self.ages.add(now - segment.round, max(0, now - 1))
        self._round = -1

    def forget_requests(self) -> None:
        self.ages = RequestAges()
        self._round = -1

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
        self._forget_scores()  # they are statistics of samples that may be deleted

    def state(self) -> dict[str, int]:
        return self.ages.state()

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        self.ages.restore(state)
        self._forget_scores()

    def _forget_scores(self) -> None:
        self._scores, self._heap, self._sums, self._round = {}, [], {}, -1

    def _refresh(self, memory: MemoryView) -> None:
        """Compute all scores anew if there was a request or a round since they were computed."""
        if self._round == memory.round:
            return
        self._round = memory.round
        self._weights = self.ages.weights(memory.round + 1)
        self._scores, self._heap, self._sums = {}, [], {}
        for shard in memory.shards():
            keys = memory.stored_of(shard)
            for index in range(len(keys) - 1):
                self._scores[keys[index]] = self._score(keys, index, keys[index + 1], memory)
        self._rebuild_heap()

    def _update(self, keys: Sequence[SegmentKey], index: int, memory: MemoryView) -> None:
        """Compute the score of one of a shard's stored sub-models anew; if all are to be, `_refresh` does it."""
        if self._round != memory.round:
            return
        key, score = keys[index], self._score(keys, index, keys[index + 1], memory)
        self._scores[key] = score
        heapq.heappush(self._heap, (score, key))
        if len(self._heap) > 64 + 4 * len(self._scores):
            self._rebuild_heap()

    def _rebuild_heap(self) -> None:
        self._heap = [(score, key) for key, score in self._scores.items()]
        heapq.heapify(self._heap)

    def _score(self, keys: Sequence[SegmentKey], index: int, following: SegmentKey, memory: MemoryView) -> float:
        key, before = keys[index], keys[index - 1] if index else None
        segments, samples, likely = self._sums_of(key.shard, following, memory)
        upto, at = bisect_left(segments, following) + 1, bisect_left(segments, key) + 1
        start = 0 if before is None else bisect_left(segments, before) + 1
        return (likely[upto] - likely[at]) * (samples[at] - samples[start])

    def _sums_of(
        self, shard: int, newest: SegmentKey, memory: MemoryView
    ) -> tuple[list[SegmentKey], list[int], list[float]]:
        """Return a shard's segments, and for the first 0, 1, 2 … of them the sums of samples and of likelihoods."""
        sums = self._sums.get(shard)
        if sums is None or sums[0][-1] < newest:
            pairs = memory.segments_of(shard)
            counts = np.array([count for _, count in pairs], dtype=np.int64)
            ages = np.array([memory.round - key.round for key, _ in pairs], dtype=np.int64)
            samples = [0, *np.cumsum(counts).tolist()]
            likely = [0.0, *np.cumsum(counts * self._weights[ages]).tolist()]
            sums = self._sums[shard] = [key for key, _ in pairs], samples, likely
        return sums
