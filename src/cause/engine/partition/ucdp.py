"""UCDP, the user-centred data partition (the paper's Algorithm 1)."""

from bisect import bisect_right
from collections.abc import Mapping

from cause.common.hashing import keyed_int
from cause.engine.partition.base import Arrivals, Partitioner


class Ucdp(Partitioner):
    """Whole users to shards, in turn, each shard choosing who brings its mean size closest to the average.

    A user keeps their shard while it takes data. With no more users than shards each gets a shard of its own.
    """

    def assign(self, arrivals: Arrivals) -> Mapping[str, int]:
        return ucdp(arrivals.sizes, arrivals.shards, arrivals.placements, (arrivals.key, arrivals.round))


def ucdp(
    sizes: Mapping[str, int], shards: int, placements: Mapping[str, int], seed: tuple[bytes, int]
) -> dict[str, int]:
    """Assign the users of one round to shards by Algorithm 1, in O(U log U).

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
    newcomers = sorted(user for user in sizes if user not in placed)
    vacant = [shard for shard in range(shards) if not members[shard]]

    if len(sizes) <= shards:
        vacant.sort(key=lambda shard: keyed_int(key, round_, shard))
        return placed | dict(zip(newcomers, vacant, strict=False))

    for shard in vacant[: len(newcomers)]:
        user = newcomers.pop(keyed_int(key, round_, shard) % len(newcomers))
        placed[user] = shard
        size[shard], members[shard] = sizes[user], 1
    waiting = _BySize(newcomers, sizes)
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
    """Users without a shard, sorted by size. Links over the users that were taken keep lookups fast."""

    def __init__(self, users: list[str], sizes: Mapping[str, int]) -> None:
        # Of equal size the lowest id comes last: searches from the right meet it first.
        self._users = sorted(users, reverse=True)
        self._users.sort(key=sizes.__getitem__)
        self._sizes = [sizes[user] for user in self._users]
        self._upto = list(range(len(users) + 1))  # how many of the first ones to look at; 0 means none is left
        self._first = 0
        self.left = len(users)

    def largest_within(self, most: int) -> tuple[str, int] | None:
        """Take the largest user of at most this size; return None if all are larger."""
        upto = self._untaken(bisect_right(self._sizes, most))
        return self._take(upto) if upto else None

    def smallest(self) -> tuple[str, int]:
        """Take the smallest user."""
        while self._upto[self._first + 1] != self._first + 1:
            self._first += 1
        return self._take(self._untaken(bisect_right(self._sizes, self._sizes[self._first])))

    def _untaken(self, upto: int) -> int:
        root = upto
        while self._upto[root] != root:
            root = self._upto[root]
        while self._upto[upto] != root:
            self._upto[upto], upto = root, self._upto[upto]
        return root

    def _take(self, upto: int) -> tuple[str, int]:
        self._upto[upto] = upto - 1
        self.left -= 1
        return self._users[upto - 1], self._sizes[upto - 1]
