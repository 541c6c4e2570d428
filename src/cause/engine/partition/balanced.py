"""Our partition by longest processing time first, which gives shards of even size."""

import heapq
from collections.abc import Mapping

from cause.common.hashing import keyed_int
from cause.engine.partition.base import Arrivals, Partitioner


class Balanced(Partitioner):
    """Whole users to shards, largest upload first, each to the shard with the least data of this round.

    Keeps UCDP's promises (an upload in one shard, a user where they are while that shard takes data) and spreads
    shard sizes far less than Algorithm 1: see `cause balance`.
    """

    def assign(self, arrivals: Arrivals) -> Mapping[str, int]:
        return longest_first(arrivals.sizes, arrivals.shards, arrivals.placements, (arrivals.key, arrivals.round))


def longest_first(
    sizes: Mapping[str, int], shards: int, placements: Mapping[str, int], seed: tuple[bytes, int]
) -> dict[str, int]:
    """Assign users to shards greedily, longest processing time first: the largest upload to the smallest shard.

    Parameters
    ----------
    sizes
        How many samples each user uploads.
    shards
        How many shards are active.
    placements
        The shards of users who stay where their data is.
    seed
        The key and the round that random choices follow from.

    Returns
    -------
    dict of int
        The shard of each user.

    Examples
    --------
    >>> placed = longest_first({"a": 9, "b": 4, "c": 5}, 2, {}, (b"key", 1))
    >>> placed["a"] != placed["b"] == placed["c"]
    True
    """
    key, round_ = seed
    placed = {user: placements[user] for user in sizes if user in placements}
    load = [0] * shards
    for user, shard in placed.items():
        load[shard] += sizes[user]
    # Equal shards in a keyed order that differs by round, or single uploads would all go to shard 0.
    heap = [(load[shard], keyed_int(key, round_, "shard", shard), shard) for shard in range(shards)]
    heapq.heapify(heap)
    for user in sorted((u for u in sizes if u not in placed), key=lambda u: (-sizes[u], u)):
        size, rank, shard = heap[0]
        placed[user] = shard
        heapq.heapreplace(heap, (size + sizes[user], rank, shard))
    return placed
