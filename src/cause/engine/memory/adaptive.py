"""Our policy that learns: evict the sub-model whose loss costs least under the ages of the requests so far."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cause.engine.memory.ages import Floats, RequestAges
from cause.engine.memory.base import MemoryView, PolicySetting
from cause.engine.memory.scored import ScoredPolicy
from cause.engine.samples import SegmentKey

LOOK_AHEAD = 24
"""Of the segments that a replay will still train, so many are considered, evenly spread."""


@dataclass(frozen=True)
class _Sums:
    """A shard's segments, and sums over the first 0, 1, 2 … of them."""

    segments: list[SegmentKey]
    number: dict[SegmentKey, int]
    """From 1, so that a segment's number is that of the sums up to it."""
    samples: list[int]
    named: list[float]
    """How likely a request names one of them: their samples, each times the weight of its age."""


class Adaptive(ScoredPolicy):
    """Evicts the sub-model whose loss is expected to add the fewest retrained samples, as requests have come so far.

    Losing (s,k) makes each request that would restart from it replay the samples between it and the stored one before.
    How likely such a request is follows from the segments after (s,k) up to the next stored one: the samples of each,
    times how likely its age is to be named. Ages are counted in rounds of the device, so the segments of a frozen shard
    grow old too. `cost` is the same with all ages as likely.

    During a replay the sub-models that it will still make are considered too: the one that was just made may soon be
    worth less than a later one.

    The state is the number of requests by age, and nothing else of them: see `RequestAges`. Samples that expire are no
    requests and are not counted.

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
        self._round = -1  # the round that the scores are of; -1 if they must be computed anew
        self._weights: Floats = np.zeros(0)
        self._sums: dict[int, _Sums] = {}

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        self._refresh(memory)
        least = self._least() or (np.inf, newcomer)
        keys = memory.stored_of(newcomer.shard)
        if keys:
            least = min(least, self._least_of(keys, newcomer, least[0], memory))
        return memory.slot_of(least[1])

    def _least_of(
        self, keys: Sequence[SegmentKey], newcomer: SegmentKey, other: float, memory: MemoryView
    ) -> tuple[float, SegmentKey]:
        """Return the stored sub-model of the newcomer's shard to evict, and its score.

        The newcomer replaces its predecessor as the head, so that one may be evicted too. What the replay will still
        make is added; then the one of the least score is taken away, until it is a stored one or `other` is less.
        """
        sums = self._sums_of(newcomer, memory)
        chain = [*keys, newcomer, *_spread(sums.segments[sums.number[newcomer] :])]
        scores = [self._score(sums, chain, index) for index in range(len(chain) - 1)]
        stored = len(keys)  # of the chain's first, those that are stored
        while True:
            index = min(range(len(scores)), key=scores.__getitem__)
            if index < stored or scores[index] > other:
                return scores[index], chain[min(index, stored - 1)]
            del chain[index], scores[index]
            for beside in (index - 1, index):
                if 0 <= beside < len(scores):
                    scores[beside] = self._score(sums, chain, beside)

    def begin(self) -> None:
        self._sums = {}  # a quarantine may have changed segments after the heads; no kept score depends on those

    def requested(self, first: Sequence[SegmentKey], memory: MemoryView) -> None:
        now = memory.round
        for segment in first:
            self.ages.add(now - segment.round, max(0, now - 1))
        self._round = -1

    @classmethod
    def without_requests(cls, state: dict[str, int]) -> dict[str, int]:
        return {}

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
        self._forget_scores()
        self._round = memory.round
        self._weights = self.ages.weights(memory.round + 1)
        for shard in memory.shards():
            keys = memory.stored_of(shard)
            if len(keys) > 1:
                sums = self._sums_of(keys[-1], memory)
                self._scores |= {keys[index]: self._score(sums, keys, index) for index in range(len(keys) - 1)}
        self._rebuild_heap()

    def _update(self, keys: Sequence[SegmentKey], index: int, memory: MemoryView) -> None:
        """Compute the score of one of a shard's stored sub-models anew; if all are to be, `_refresh` does it."""
        if self._round != memory.round:
            return
        self._put(keys[index], self._score(self._sums_of(keys[-1], memory), keys, index))

    @staticmethod
    def _score(sums: _Sums, chain: Sequence[SegmentKey], index: int) -> float:
        """Return what the loss of one of a shard's sub-models costs if the shard has those of the chain."""
        at, upto = sums.number[chain[index]], sums.number[chain[index + 1]]
        start = sums.number[chain[index - 1]] if index else 0
        return (sums.named[upto] - sums.named[at]) * (sums.samples[at] - sums.samples[start])

    def _sums_of(self, newest: SegmentKey, memory: MemoryView) -> _Sums:
        """Return the sums of the shard of a segment, which is in them."""
        sums = self._sums.get(newest.shard)
        if sums is None or newest not in sums.number:
            pairs = memory.segments_of(newest.shard)
            counts = np.array([count for _, count in pairs], dtype=np.int64)
            ages = np.array([memory.round - key.round for key, _ in pairs], dtype=np.int64)
            sums = self._sums[newest.shard] = _Sums(
                [key for key, _ in pairs],
                {key: number for number, (key, _) in enumerate(pairs, start=1)},
                [0, *np.cumsum(counts).tolist()],
                [0.0, *np.cumsum(counts * self._weights[ages]).tolist()],
            )
        return sums


def _spread(segments: Sequence[SegmentKey]) -> list[SegmentKey]:
    """Return at most `LOOK_AHEAD` of these segments, evenly spread, the last one always.

    >>> [key.round for key in _spread([SegmentKey(0, t) for t in range(1, 97)])][-3:]
    [88, 92, 96]
    """
    most = len(segments)
    taken = min(most, LOOK_AHEAD)
    return [segments[most * number // taken - 1] for number in range(1, taken + 1)]
