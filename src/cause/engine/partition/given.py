"""The partition that a trace names: each upload, or each sample, has its shard in the trace."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from cause.engine.partition.base import Arrivals, Assignment, Partitioner
from cause.errors import InputError


@runtime_checkable
class NamesShards(Protocol):
    """An upload whose trace names the shards of its samples."""

    def given_shards(self) -> Assignment:
        """Return the shard of the whole upload, or one shard for each sample."""


class Given(Partitioner):
    """The shard that the trace names; as many shards as 1 + the highest named, controller off."""

    def assign(self, arrivals: Arrivals) -> Mapping[str, Assignment]:
        assigned: dict[str, Assignment] = {}
        for user, upload in arrivals.uploads.items():
            if not isinstance(upload, NamesShards):
                raise InputError("partition 'given' needs a trace that names the shards; files and arrays name none")
            assigned[user] = upload.given_shards()
        return assigned
