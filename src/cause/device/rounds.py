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

Uploads = Iterable[Upload] | Mapping[str, tuple[ArrayLike, ArrayLike]]
"""Uploads, or inputs and labels by user."""


Record = Callable[[Any, str | None], tuple[int, int, Mapping[str, Upload], list[int]]]
"""Records the uploads of a call; returns the round, its active shards, what arrived, and the shards that waited."""


def begin(device: "Cause", uploads: Uploads, idempotency_key: str | None, record: Record) -> tuple[Learned, list[int]]:
    """Record a round, or find the one that a call with the same key has recorded.

    Parameters
    ----------
    device
        The device.
    uploads
        What arrived.
    idempotency_key
        The key of the call; None records the round without one.
    record
        Records the round.

    Returns
    -------
    The round before anything of it is trained, and the shards that waited for a repair before it.
    """
    named = by_name(uploads) if isinstance(uploads, Mapping) else named_well(uploads)
    home, call = device.home, None
    with device.lock:
        if idempotency_key is not None:
            if home is None:
                raise InputError("an idempotency key is for a device with a home: Cause('device/', …)")
            device.resume()
            call = home.call_of(idempotency_key)
            earlier = home.inbox.called(call)
            if earlier is not None and earlier.round is not None:
                handles, active = home.same_rows(earlier, named), device.controller.at(earlier.round)
                learned = Learned(earlier.round, active, (), earlier.samples, handles, repeated=True)
                return learned, [s for s in device.waiting() if _first_untrained(device, s).round < learned.round]
        handles = {}
        if home is not None and isinstance(named, dict):
            rows = {user: (*upload, _fresh_handles(upload[1])) for user, upload in named.items()}
            handles = {user: tuple(handle.hex() for handle in fresh) for user, (*_, fresh) in rows.items()}
        t, active, arrived, waiting = record(rows if handles else named, call)
    return Learned(t, active, (), sum(len(upload.positions) for upload in arrived.values()), handles), waiting


def _first_untrained(device: "Cause", shard: int) -> SegmentKey:
    """The segment with which the training of a waiting shard goes on."""
    head = device.memory.head(shard)
    return device.ledger.lineage(shard).after(None if head is None else head.key)[0].key


def _fresh_handles(labels: Any) -> list[bytes]:
    from cause.device.store.blocks import new_handles

    return [row.tobytes() for row in new_handles(len(np.atleast_1d(np.asarray(labels))))]
