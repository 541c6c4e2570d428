"""The journal of a device: it records changes durably. This one, of a device in memory, records nothing."""

from collections.abc import Collection, Mapping, Sequence
from secrets import token_hex
from typing import Any

import numpy as np

from cause.engine.ledger import Selection
from cause.engine.plan import ShardPlan
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey


class Journal:
    """Base class of journals. A home's journal makes each call durable before it returns, completely or not at all."""

    def accept(self, requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
        """Record requests, which will be served even after a crash; return their ids.

        Parameters
        ----------
        requests
            The requests.
        ids
            Their ids; by default random ones.
        """
        return [token_hex(8) for _ in requests] if ids is None else list(ids)

    def effect(
        self, ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
    ) -> int:
        """Record that requests are in effect, and destroy the samples and sub-models on the disk.

        Parameters
        ----------
        ids
            The requests.
        selection
            The deleted samples.
        plans
            What the deletion means for each shard.
        dropped
            The sub-models that were trained on them.

        Returns
        -------
        int
            The number of deleted samples that had not been part of a round yet.
        """
        return 0

    def expired(self) -> list[Request]:
        """Return requests for the samples that are older than the retention period."""
        return []

    def staged(self, user: str) -> int:
        """Return the number of a user's samples that are staged: uploaded, but not part of a round yet."""
        return 0

    def staged_handles(self, user: str) -> set[str]:
        """Return the handles of a user's staged samples."""
        return set()

    def staged_kind(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Return shape and type of the oldest staged input; None if there is none."""
        return None

    def trained(self, segment: SegmentKey, evicted: Sequence[SegmentKey] = (), retrained: int = 0) -> None:
        """Record that a sub-model was admitted.

        Parameters
        ----------
        segment
            The segment that it was trained up to.
        evicted
            The sub-models that the memory evicted to make room for it.
        retrained
            How many samples were trained again.
        """

    def placed(self, environments: Mapping[int, str], dropped: Collection[SegmentKey] = ()) -> None:
        """Record the environments that shards are trained in from now on.

        Parameters
        ----------
        environments
            The environments by shard.
        dropped
            The sub-models of these shards that the memory has dropped, because they are of another environment.
        """

    def sending(self, shard: int, seconds: float) -> None:
        """Record that samples of a shard are about to be sent to another machine.

        Parameters
        ----------
        shard
            The shard.
        seconds
            How long a worker there may outlive this process.
        """

    def await_workers(self, shards: Collection[int]) -> None:
        """Wait until no worker of an earlier process can hold samples of these shards any more."""

    def workers_ended(self) -> None:
        """Record that all workers of this process have ended."""

    def discarded(self, key: SegmentKey) -> None:
        """Record that a damaged sub-model was removed from the memory."""

    def quarantined(self, key: SegmentKey, uploads: int) -> None:
        """Record that samples of a number of uploads in a segment are in quarantine."""

    def failed(self, errors: Mapping[int, str]) -> None:
        """Record the shards whose training fails, by the type of their last error; all others do not fail."""

    def caught_up(self, behind: Sequence[int]) -> None:
        """Record the end of a training, after which these shards still wait."""

    def close(self) -> None:
        """Release files and locks."""
