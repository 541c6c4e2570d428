"""Quarantine in the tables of a home: samples are retained as before, but are no part of their segment any more.

Pieces in quarantine stay in the table `pieces`, with the time and the verdict. So forgetting, expiry, renumbering and
backups treat them like all others, and the verdict is deleted with them.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import seal_digests
from cause.device.store.tables import Tables
from cause.engine.samples import SegmentKey


class QuarantineEntry(NamedTuple):
    """A piece in quarantine."""

    upload: int
    since: float
    """When it was set aside, in seconds since 1970."""
    verdict: str
    """The type of the error that training on it alone ends with."""


def set_aside(
    store: SealedStore,
    tables: Tables,
    key: SegmentKey,
    pieces: Mapping[int, QuarantineEntry],
    digests: NDArray[np.void],
    left: int,
) -> None:
    """Set pieces of a segment aside, in one transaction.

    Earlier receipts' commitments to the shard's data are superseded: their keys become garbage.

    Parameters
    ----------
    store, tables
        The home's files and keys, and its tables.
    key
        The segment.
    pieces
        What is set aside, by pseudonym.
    digests
        The segment's list of digests so far.
    left
        How many samples the segment has afterwards. An empty one stays in the table: it may get samples back.
    """
    name, fresh = os.urandom(16), os.urandom(32)
    sealed = seal_digests(fresh, key, digests[~np.isin(digests["pseudonym"], list(pieces))])
    seal = tables.samples.segment_seal(key)
    old = [*([] if seal is None else [seal[0]]), *tables.requests.manifest_keys(key.shard)]
    store.write({name: fresh}, [])
    try:
        with tables.database.transaction():
            for aside in pieces.values():
                tables.samples.set_aside(key, *aside)
            tables.samples.update_segments({key: (left, name, sealed)})
            tables.requests.delete_manifest_keys(key.shard)
    except BaseException:
        store.garbage.add_uncertain([name])
        raise
    store.garbage.update(old)
