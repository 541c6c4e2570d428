"""The home's journal, with somebody who hears of what it writes down."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cause.device.store.home import Home
from cause.engine.journal import Journal
from cause.engine.ledger import Selection
from cause.engine.plan import ShardPlan
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey
from cause.service.events import Events


class TellingJournal(Journal):
    """Writes to the home first; what is told has happened, durably."""

    def __init__(self, home: Home, events: Events, forgotten: Callable[[], None]) -> None:
        """`forgotten` is called whenever something was, whoever asked for it: a user, the schedule, a start."""
        self._home, self._events, self._forgotten = home, events, forgotten
        self.retrained = 0
        """Samples that were trained again since the service started."""

    def accept(self, requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
        return self._home.accept(requests, ids)

    def staged(self, user: str) -> int:
        return self._home.staged(user)

    def staged_handles(self, user: str) -> set[str]:
        return self._home.staged_handles(user)

    def staged_kind(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        return self._home.staged_kind()

    def expired(self) -> list[Request]:
        return self._home.expired()

    def effect(
        self, ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
    ) -> int:
        try:
            staged = self._home.effect(ids, selection, plans, dropped)
        finally:
            self._forgotten()
        samples = self._home.queries.request_samples(ids[0])
        told = {"requests": list(ids), "samples": samples, "shards": [plan.shard for plan in plans]}
        rsn = sum(plan.rsn for plan in plans)
        self._events.tell("forget.effective", **told, dropped=[list(key) for key in dropped], rsn_planned=rsn)
        for key in dropped:
            self._events.tell("sub_model.dropped", segment=list(key), why="forgotten")
        return staged

    def trained(self, segment: SegmentKey, evicted: Sequence[SegmentKey] = (), retrained: int = 0) -> None:
        self._home.trained(segment, evicted, retrained)
        self.retrained += retrained
        self._events.tell("segment.trained", segment=list(segment), retrained=retrained)
        kept = self._home.memory[segment]
        slot = self._home.memory.slot_of(segment)
        self._events.tell("sub_model.admitted", segment=list(segment), size_bytes=kept.size_bytes, slot=slot)
        for key in sorted(evicted):
            self._events.tell("sub_model.dropped", segment=list(key), why="evicted")

    def discarded(self, key: SegmentKey) -> None:
        self._home.discarded(key)
        self._events.tell("sub_model.dropped", segment=list(key), why="damaged")

    def quarantined(self, key: SegmentKey, uploads: int) -> None:
        self._home.quarantined(key, uploads)
        self._events.tell("upload.quarantined", segment=list(key), uploads=uploads)

    def failed(self, errors: Mapping[int, str]) -> None:
        self._home.failed(errors)

    def caught_up(self, behind: Sequence[int]) -> None:
        unrepaired = self._home.queries.unrepaired()
        self._home.caught_up(behind)
        for request in unrepaired:
            if self._home.queries.is_repaired(request):
                self._events.tell("request.repaired", request=request)

    def close(self) -> None:
        self._home.close()
