"""UCDP, the user-centred data partition (the paper's Algorithm 1)."""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from cause.keyed import keyed_int
from cause.partition.base import Arrivals, Partitioner


class Ucdp(Partitioner):
    """Whole users to shards, in turn, each shard choosing who brings its mean size closest to the average.

    A user keeps their shard while it takes data. With no more users than shards each gets a shard of its own.
    """

    def assign(self, arrivals: Arrivals) -> Mapping[str, int]:
        return ucdp(arrivals.sizes, arrivals.shards, arrivals.placements, (arrivals.key, arrivals.round))


def ucdp(
    sizes: Mapping[str, int], shards: int, placements: Mapping[str, int], seed: tuple[bytes, int]
) -> dict[str, int]:
    """Algorithm 1 on the uploads of one round, in O(U log U).

    Examples
    --------
    >>> placed = ucdp({"a": 9, "b": 1, "c": 5, "d": 5}, 2, {}, (b"key", 1))
    >>> sorted(placed), sorted(set(placed.values()))
    (['a', 'b', 'c', 'd'], [0, 1])
    >>> ucdp({"a": 9, "b": 1}, 4, {"a": 2}, (b"key", 1))["a"]  # stays
    2
    """
    key, round_ = seed
    placed = {user: placements[user] for user in sizes if user in placements}
    size, members = [0] * shards, [0] * shards
    for user, shard in placed.items():
        size[shard] += sizes[user]
        members[shard] += 1
    newcomers = [user for user in sizes if user not in placed]
    vacant = [shard for shard in range(shards) if not members[shard]]

    if len(sizes) <= shards:
        vacant.sort(key=lambda shard: keyed_int(key, round_, "shard", shard))
        return placed | dict(zip(sorted(newcomers), vacant, strict=False))

    first = heapq.nsmallest(len(vacant), newcomers, key=lambda user: (keyed_int(key, round_, "user", user), user))
    for shard, user in zip(vacant, first, strict=False):
        placed[user] = shard
        size[shard], members[shard] = sizes[user], 1
    waiting = _BySize((user, sizes[user]) for user in newcomers if user not in placed)
    total, users = sum(sizes.values()), len(sizes)
    shard = 0
    while waiting.left:
        # The mean after adding x stays within the average while x ≤ average·(members + 1) - size; of those the
        # largest is closest, and when there is none the smallest oversteps least. Ties: lowest user id.
        room = (total * (members[shard] + 1) - size[shard] * users) // users
        user, taken = waiting.largest_within(room) or waiting.smallest()
        placed[user] = shard
        size[shard] += taken
        members[shard] += 1
        shard = (shard + 1) % shards
    return placed


class _BySize:
    """Users waiting for a shard, found by size and taken: groups of equal size, and links over empty groups."""

    def __init__(self, users: Iterable[tuple[str, int]]) -> None:
        groups: dict[int, list[str]] = {}
        self.left = 0
        for user, size in users:
            groups.setdefault(size, []).append(user)
            self.left += 1
        self._sizes = sorted(groups)
        self._groups = [sorted(groups[size], reverse=True) for size in self._sizes]
        self._below = list(range(len(self._sizes) + 1))  # shifted by one: 0 means "none"
        self._first = 0

    def largest_within(self, most: int) -> tuple[str, int] | None:
        """Take the largest of at most this size."""
        at = self._nearest(bisect_right(self._sizes, most))
        return self._take(at - 1) if at else None

    def smallest(self) -> tuple[str, int]:
        """Take the smallest."""
        while not self._groups[self._first]:
            self._first += 1
        return self._take(self._first)

    def _nearest(self, at: int) -> int:
        root = at
        while self._below[root] != root:
            root = self._below[root]
        while self._below[at] != root:
            self._below[at], at = root, self._below[at]
        return root

    def _take(self, group: int) -> tuple[str, int]:
        user = self._groups[group].pop()
        if not self._groups[group]:
            self._below[group + 1] = group
        self.left -= 1
        return user, self._sizes[group]
