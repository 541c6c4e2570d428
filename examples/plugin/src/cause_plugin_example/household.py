"""A partition for users who come and leave together."""

from collections.abc import Mapping

from cause.common.hashing import keyed_int
from cause.engine.partition import Arrivals, Partitioner


class Household(Partitioner):
    """Users of one household (`smith/ann`, `smith/bob`) in one shard, by a keyed hash of the household's name.

    When a household leaves, one shard is trained again. The shard depends on nobody else's data, so nothing of a
    deleted user is left in where the others are.
    """

    def assign(self, arrivals: Arrivals) -> Mapping[str, int]:
        return {user: keyed_int(arrivals.key, user.partition("/")[0]) % arrivals.shards for user in arrivals.uploads}
