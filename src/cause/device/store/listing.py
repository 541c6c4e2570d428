"""Lists the samples of a user, a page at a time."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cause.engine.results import HeldSample

if TYPE_CHECKING:
    from cause.device.store.home import Home


class _Part(NamedTuple):
    """Samples that arrived together."""

    round: int | None
    arrived: float
    samples: int
    read: Callable[[], tuple[NDArray[np.int64], Any]]
    """Reads their labels and handles."""


def page(
    home: "Home", user: str, *, round_: int | None = None, first: int = 0, most: int | None = None
) -> tuple[list[HeldSample], int]:
    """A page of a user's samples, in the order of their rounds, and how many there are in all.

    Staged samples come last. The order within a round is random and says nothing; it stays the same until something of
    that round is forgotten.

    Parameters
    ----------
    user
        Whose samples.
    round_
        Only those of this round.
    first, most
        The number of the first sample, counted from 0, and how many; all if `most` is None.
    """
    parts = _parts(home, user, round_)
    total = sum(part.samples for part in parts)
    stop = total if most is None else min(total, first + most)
    samples, start = [], 0
    for part in parts:
        rows = range(max(first, start) - start, min(stop, start + part.samples) - start)
        if len(rows):
            labels, handles = part.read()
            samples += [HeldSample(part.round, handles[row], int(labels[row]), part.arrived) for row in rows]
        start += part.samples
    return samples, total


def _parts(home: "Home", user: str, round_: int | None) -> list[_Part]:
    places = sorted((t, name) for name in home.ledger.names_like(user) for t in home.ledger.rounds_of(name))
    parts = [_learned(home, name, t) for t, name in places if round_ in (None, t)]
    return parts + [_staged(home, upload) for upload in (home.inbox.like(user) if round_ is None else ())]


def _learned(home: "Home", name: str, round_: int) -> _Part:
    upload = home.ledger.upload(name, round_)
    (arrived,) = home.database.row("SELECT arrived FROM uploads WHERE id=?", [upload.blocks.upload_id])

    def read() -> tuple[NDArray[np.int64], Any]:
        return upload.labels(upload.positions), [row.tobytes().hex() for row in upload.handles(upload.positions)]

    return _Part(round_, arrived, len(upload.positions), read)


def _staged(home: "Home", upload: Any) -> _Part:
    def read() -> tuple[NDArray[np.int64], Any]:
        labels = np.concatenate([home.store_.meta(name).labels for name in upload.names])
        return labels, home.inbox.handles(upload.id)

    return _Part(None, upload.arrived, upload.samples, read)
