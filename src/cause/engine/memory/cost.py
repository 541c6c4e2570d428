"""Our own policy: evict the sub-model whose loss costs least."""

from collections.abc import Sequence

from cause.engine.memory.base import MemoryView
from cause.engine.memory.scored import ScoredPolicy
from cause.engine.samples import SegmentKey


class Cost(ScoredPolicy):
    """Evicts the sub-model whose loss is expected to add the fewest retrained samples.

    Losing (s,k) makes each request that would restart from it (W: the samples after it, up to the next stored one)
    replay the samples between it and the one before (N). The least W·N goes, ties by (s,k); requests are taken as
    equally likely for each sample.

    A deletion touches only segments after a shard's newest clean sub-model, which as a head has no score.
    """

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        least = self._least()
        options = [] if least is None else [least]
        keys = memory.stored_of(newcomer.shard)
        if keys:  # the newcomer replaces its predecessor as the head, so that one may be evicted too
            options.append((self._score(keys, len(keys) - 1, newcomer, memory), keys[-1]))
        return memory.slot_of(min(options)[1])

    def purge(self) -> None:
        self._rebuild_heap()  # outdated scores are statistics of deleted samples

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        self._scores, self._heap = {}, []
        for shard in memory.shards():
            keys = memory.stored_of(shard)
            for index in range(len(keys) - 1):
                self._update(keys, index, memory)

    def _update(self, keys: Sequence[SegmentKey], index: int, memory: MemoryView) -> None:
        self._put(keys[index], self._score(keys, index, keys[index + 1], memory))

    @staticmethod
    def _score(keys: Sequence[SegmentKey], index: int, following: SegmentKey, memory: MemoryView) -> int:
        key, before = keys[index], keys[index - 1] if index else None
        restarts = memory.samples_between(key.shard, key, following)
        return restarts * memory.samples_between(key.shard, before, key)
