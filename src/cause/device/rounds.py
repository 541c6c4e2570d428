"""How `learn` begins a round: names in normal form, handles for the rows, and nothing taken in twice."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cause.engine.checks import by_name, named_well
from cause.engine.results import Learned
from cause.engine.samples import SegmentKey, Upload
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.device.device import Cause

Given = Iterable[Upload] | Mapping[str, tuple[ArrayLike, ArrayLike]]
"""Uploads, or inputs and labels by user."""


Record = Callable[[Any, str | None], tuple[int, int, Mapping[str, Upload], list[int]]]
"""Records a round that came with a call: its number, its active shards, what arrived, and the shards that waited."""


def begin(device: "Cause", uploads: Given, idempotency_key: str | None, record: Record) -> tuple[Learned, list[int]]:
    """Record a round, or find the one that a call with the same key has recorded.

    Returns
    -------
    The round before anything of it is trained, and the shards that waited for a repair before it.
    """
    given = by_name(uploads) if isinstance(uploads, Mapping) else named_well(uploads)
    home, call = device.home, None
    with device.lock:
        if idempotency_key is not None:
            if home is None:
                raise InputError("an idempotency key is for a device with a home: Cause('device/', …)")
            device.resume()
            call = home.call_of(idempotency_key)
            before = home.inbox.called(call)
            if before is not None and before.round is not None:
                handles, active = home.same_rows(before, given), device.controller.at(before.round)
                known = Learned(before.round, active, (), before.samples, handles, repeated=True)
                return known, [s for s in device.waiting() if _first_untrained(device, s).round < known.round]
        handles = {}
        if home is not None and isinstance(given, dict):
            rows = {user: (*upload, _fresh_handles(upload[1])) for user, upload in given.items()}
            handles = {user: tuple(each.hex() for each in fresh) for user, (*_, fresh) in rows.items()}
        t, active, arrived, waiting = record(rows if handles else given, call)
    return Learned(t, active, (), sum(len(upload.positions) for upload in arrived.values()), handles), waiting


def _first_untrained(device: "Cause", shard: int) -> SegmentKey:
    """The segment with which the training of a waiting shard goes on."""
    head = device.memory.head(shard)
    return device.ledger.lineage(shard).after(None if head is None else head.key)[0].key


def _fresh_handles(labels: Any) -> list[bytes]:
    from cause.device.store.blocks import new_handles

    return [row.tobytes() for row in new_handles(len(np.atleast_1d(np.asarray(labels))))]
