"""ARCANE's partition: each shard gets the samples of some classes."""

from collections.abc import Mapping

import numpy as np

from cause.engine.partition.base import Arrivals, Assignment, Partitioner
from cause.errors import InputError


class ByClass(Partitioner):
    """Class c to shard floor(c·S_t/classes); with more shards than classes, a class is split by hash (ARCANE)."""

    by_sample = True

    def assign(self, arrivals: Arrivals) -> Mapping[str, Assignment]:
        shards, classes = arrivals.shards, arrivals.classes
        assigned: dict[str, Assignment] = {}
        for user, upload in arrivals.uploads.items():
            labels = upload.labels(upload.positions)
            if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
                worst = labels.max() if labels.max() >= classes else labels.min()
                raise InputError(f"user {user!r} has label {worst}, but there are {classes} classes (from 0)")
            low = labels * shards // classes
            width = np.maximum(1, (labels + 1) * shards // classes - low)
            assigned[user] = low + (upload.hashes(arrivals.key, upload.positions) % width.astype(np.uint64)).astype(
                np.int64
            )
        return assigned
