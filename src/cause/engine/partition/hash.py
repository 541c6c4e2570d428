"""The partition by a hash of the user, which does not depend on other users, so it shows nothing of deleted ones."""

from collections.abc import Mapping

from cause.common.hashing import keyed_int
from cause.engine.partition.base import Arrivals, Partitioner


class Hash(Partitioner):
    """Each user by a keyed hash of their id, modulo the shards that take data: history-independent."""

    def assign(self, arrivals: Arrivals) -> Mapping[str, int]:
        return {user: keyed_int(arrivals.key, user) % arrivals.shards for user in arrivals.uploads}
