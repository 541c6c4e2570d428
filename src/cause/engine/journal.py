"""What must be written down for a device to survive its process. Here: nothing, it lives in memory."""

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

import numpy as np

from cause.engine.ledger import Selection
from cause.engine.plan import ShardPlan
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey


class Journal:
    """The seam of a durable home. Each call is durable when it returns, whole or not at all."""

    def accept(self, requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
        """Requests that will be served, whatever happens; their ids."""
        return [token_hex(8) for _ in requests] if ids is None else list(ids)

    def effect(
        self, ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
    ) -> int:
        """The samples and every tainted sub-model are gone, from the disk too; how many samples went that had waited
        for a round."""
        return 0

    def expired(self) -> list[Request]:
        """What is older than samples are kept."""
        return []

    def staged(self, user: str) -> int:
        """Samples of a user that arrived and are not yet part of a round."""
        return 0

    def staged_handles(self, user: str) -> set[str]:
        """The handles of those samples."""
        return set()

    def staged_kind(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Shape and type of the oldest input among those samples; None if there is none."""
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

    def discarded(self, key: SegmentKey) -> None:
        """A damaged sub-model is no longer in the memory."""

    def quarantined(self, key: SegmentKey, uploads: int) -> None:
        """Samples of so many uploads were set aside in a segment."""

    def failed(self, errors: Mapping[int, str]) -> None:
        """The shards whose training fails, with the type of their last error; those not named do not fail."""

    def caught_up(self, behind: Sequence[int]) -> None:
        """Training has come to an end; these shards still wait."""

    def close(self) -> None:
        """Let go of files and locks."""
