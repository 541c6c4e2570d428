"""Quarantine in the tables of a home: samples are retained as before, but are no part of their segment any more.

Pieces in quarantine stay in the table `pieces`, with the time and the verdict. So forgetting, expiry, renumbering and
backups treat them like all others, and the verdict is deleted with them.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cause.device.store.seals import seal_digests
from cause.engine.samples import SegmentKey

if TYPE_CHECKING:
    from cause.device.store.home import Home


class Aside(NamedTuple):
    """A piece in quarantine."""

    upload: int
    since: float
    """When it was set aside, in seconds since 1970."""
    verdict: str
    """The type of the error that training on it alone ends with."""


def set_aside(home: "Home", key: SegmentKey, verdicts: Mapping[str, str], left: int) -> dict[int, Aside]:
    """Set the samples of these users in a segment aside, in one transaction.

    Earlier receipts' commitments to the shard's data are superseded: their keys become garbage.

    Parameters
    ----------
    key
        The segment.
    verdicts
        The type of error that each user's samples end with, by user.
    left
        How many samples the segment has afterwards. An empty one stays in the table: it may get samples back.

    Returns
    -------
    dict
        The pieces that were set aside, by pseudonym.
    """
    database, now = home.database, home.clock()
    pieces: dict[int, Aside] = {}
    for user, verdict in verdicts.items():
        pseudonym = home.directory.pseudonym(user) or 0
        (upload,) = database.row("SELECT id FROM uploads WHERE (pseudonym, round)=(?, ?)", [pseudonym, key.round])
        pieces[pseudonym] = Aside(upload, now, verdict)
    rows, name, fresh = home.ledger.digests(key), os.urandom(16), os.urandom(32)
    sealed = seal_digests(fresh, key, rows[~np.isin(rows["pseudonym"], list(pieces))])
    where = "WHERE (shard, round, slice)=(?, ?, ?)"
    old = database.rows(f"SELECT key FROM segments {where} AND key IS NOT NULL", list(key))
    old += database.rows("SELECT key FROM manifests WHERE shard=?", [key.shard])
    home.write({name: fresh}, [])
    try:
        with database.transaction():
            for aside in pieces.values():
                database.run(
                    f"UPDATE pieces SET quarantined=?, verdict=? {where} AND upload=?",
                    [aside.since, aside.verdict, *key, aside.upload],
                )
            database.run(f"UPDATE segments SET samples=?, key=?, sealed_digests=? {where}", [left, name, sealed, *key])
            database.run("DELETE FROM manifests WHERE shard=?", [key.shard])
    except BaseException:
        home.garbage.doubt([name])
        raise
    home.garbage.update([bytes(old_name) for (old_name,) in old])
    return pieces


def give_back(home: "Home") -> None:
    """End the quarantine of reinstated segments; call it in the transaction in which a request takes effect."""
    for key in home.ledger.reinstated:
        home.database.run(
            "UPDATE pieces SET quarantined=NULL, verdict=NULL WHERE (shard, round, slice)=(?, ?, ?)", list(key)
        )
