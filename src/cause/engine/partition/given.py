"""The partition that a trace brings along."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from cause.engine.partition.base import Arrivals, Assignment, Partitioner
from cause.errors import InputError


@runtime_checkable
class NamesShards(Protocol):
    """An upload that brings its shards along."""

    def given_shards(self) -> Assignment:
        """The shard for the whole upload, or one for each sample."""


class Given(Partitioner):
    """The shard that the trace names; as many shards as 1 + the highest named, controller off."""

    def assign(self, arrivals: Arrivals) -> Mapping[str, Assignment]:
        assigned: dict[str, Assignment] = {}
        for user, upload in arrivals.uploads.items():
            if not isinstance(upload, NamesShards):
                raise InputError("partition 'given' needs a trace that names the shards; files and arrays name none")
            assigned[user] = upload.given_shards()
        return assigned
