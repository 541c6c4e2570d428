"""SISA's partition: samples are spread evenly over the shards, regardless of their users."""

from collections.abc import Mapping

from cause.engine.partition.base import Arrivals, Assignment, Partitioner


class Uniform(Partitioner):
    """Each sample by a keyed hash of its id, modulo the shards that take data (SISA)."""

    by_sample = True

    def assign(self, arrivals: Arrivals) -> Mapping[str, Assignment]:
        return {
            user: upload.hashes(arrivals.key, upload.positions) % arrivals.shards
            for user, upload in arrivals.uploads.items()
        }
