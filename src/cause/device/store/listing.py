"""Lists the samples of a user, a page at a time."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cause.device.store.inbox import Inbox, Staged
from cause.device.store.ledger import HomeLedger
from cause.device.store.tables import SampleTables
from cause.engine.results import HeldSample


class _Part(NamedTuple):
    """Samples that arrived together."""

    round: int | None
    arrived: float
    samples: int
    read: Callable[[], tuple[NDArray[np.int64], Any]]
    """Reads their labels and handles."""


class Listing:
    """Lists samples.

    Parameters
    ----------
    ledger
        The retained samples.
    inbox
        The staged ones.
    tables
        The tables with the times of arrival.
    """

    def __init__(self, ledger: HomeLedger, inbox: Inbox, tables: SampleTables) -> None:
        self._ledger, self._inbox, self._tables = ledger, inbox, tables

    def page(
        self, user: str, *, round_: int | None = None, first: int = 0, most: int | None = None
    ) -> tuple[list[HeldSample], int]:
        """Return a page of a user's samples, in the order of their rounds, and how many there are in all.

        Staged samples come last. The order within a round is random and says nothing; it stays the same until something
        of that round is forgotten.

        Parameters
        ----------
        user
            Whose samples.
        round_
            Only those of this round.
        first, most
            The number of the first sample, counted from 0, and how many; all if `most` is None.
        """
        parts = self._parts(user, round_)
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

    def _parts(self, user: str, round_: int | None) -> list[_Part]:
        ledger = self._ledger
        places = sorted((t, name) for name in ledger.names_like(user) for t in ledger.rounds_of(name))
        parts = [self._learned(name, t) for t, name in places if round_ in (None, t)]
        return parts + [
            self._staged(upload) for upload in (self._inbox.of_any_spelling(user) if round_ is None else ())
        ]

    def _learned(self, name: str, round_: int) -> _Part:
        upload = self._ledger.upload(name, round_)

        def read() -> tuple[NDArray[np.int64], Any]:
            return upload.labels(upload.positions), [row.tobytes().hex() for row in upload.handles(upload.positions)]

        return _Part(round_, self._tables.arrived(upload.blocks.upload_id), len(upload.positions), read)

    def _staged(self, upload: Staged) -> _Part:
        def read() -> tuple[NDArray[np.int64], Any]:
            return self._inbox.labels(upload.id), self._inbox.handles(upload.id)

        return _Part(None, upload.arrived, upload.samples, read)
