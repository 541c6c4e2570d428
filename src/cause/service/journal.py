"""A journal that writes to the home and publishes events."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cause.device.home.home import Home
from cause.engine.journal import Journal
from cause.engine.ledger import Selection
from cause.engine.plan import ShardPlan
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey
from cause.service.events import Events


class PublishingJournal(Journal):
    """Writes to the home first, then publishes an event: what an event says is durable.

    Parameters
    ----------
    home
        The journal that is written to.
    events
        Where events are published.
    on_forget
        Called after every erasure, whether a user, the retention schedule or a start caused it.
    """

    def __init__(self, home: Home, events: Events, on_forget: Callable[[], None]) -> None:
        self._home, self._events, self._on_forget = home, events, on_forget
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
            self._on_forget()
        samples = sum(self._home.queries.request_samples(id_) for id_ in ids)
        counts = {"requests": list(ids), "samples": samples, "shards": [plan.shard for plan in plans]}
        rsn = sum(plan.rsn for plan in plans)
        self._events.publish("forget.effective", **counts, dropped=[list(key) for key in dropped], rsn_planned=rsn)
        for key in dropped:
            self._events.publish("sub_model.dropped", segment=list(key), why="forgotten")
        return staged

    def trained(self, segment: SegmentKey, evicted: Sequence[SegmentKey] = (), retrained: int = 0) -> None:
        self._home.trained(segment, evicted, retrained)
        self.retrained += retrained
        self._events.publish("segment.trained", segment=list(segment), retrained=retrained)
        kept = self._home.memory[segment]
        slot = self._home.memory.slot_of(segment)
        self._events.publish("sub_model.admitted", segment=list(segment), size_bytes=kept.size_bytes, slot=slot)
        for key in sorted(evicted):
            self._events.publish("sub_model.dropped", segment=list(key), why="evicted")

    def placed(self, environments: Mapping[int, str], dropped: Collection[SegmentKey] = ()) -> None:
        self._home.placed(environments, dropped)
        for key in sorted(dropped):
            self._events.publish("sub_model.dropped", segment=list(key), why="from scratch")

    def sending(self, shard: int, seconds: float) -> None:
        self._home.sending(shard, seconds)

    def await_workers(self, shards: Collection[int]) -> None:
        self._home.await_workers(shards)

    def workers_ended(self) -> None:
        self._home.workers_ended()

    def discarded(self, key: SegmentKey) -> None:
        self._home.discarded(key)
        self._events.publish("sub_model.dropped", segment=list(key), why="damaged")

    def quarantined(self, key: SegmentKey, uploads: int) -> None:
        self._home.quarantined(key, uploads)
        self._events.publish("upload.quarantined", segment=list(key), uploads=uploads)

    def failed(self, errors: Mapping[int, str]) -> None:
        self._home.failed(errors)

    def caught_up(self, behind: Sequence[int]) -> None:
        unrepaired = self._home.queries.unrepaired()
        self._home.caught_up(behind)
        for request in unrepaired:
            if self._home.queries.is_repaired(request):
                self._events.publish("request.repaired", request=request)

    def close(self) -> None:
        self._home.close()
