"""Samples are set aside in the tables of a home: retained as before, and no part of their segment any more.

Pieces in quarantine stay in the table `pieces`, with the time and the verdict. So whatever forgets, expires, renumbers
or backs up samples handles them as all others, and nothing is left of the verdict once they are gone.
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
    verdict: str


def set_aside(home: "Home", key: SegmentKey, verdicts: Mapping[str, str], left: int) -> dict[int, Aside]:
    """Set the samples of these users in a segment aside, in one transaction.

    What earlier receipts say of the shard's data is superseded: the keys of their commitments go.

    Parameters
    ----------
    verdicts
        The type of error that each user's samples end with, by user.
    left
        How many samples the segment has afterwards. One of which nothing is left stays in the table, for the time when
        it gets some of them back.

    Returns
    -------
    dict
        What was set aside, by pseudonym.
    """
    database, now = home.database, home.clock()
    found: dict[int, Aside] = {}
    for user, verdict in verdicts.items():
        pseudonym = home.directory.pseudonym(user) or 0
        (upload,) = database.row("SELECT id FROM uploads WHERE (pseudonym, round)=(?, ?)", [pseudonym, key.round])
        found[pseudonym] = Aside(upload, now, verdict)
    rows, name, fresh = home.ledger.digests(key), os.urandom(16), os.urandom(32)
    sealed = seal_digests(fresh, key, rows[~np.isin(rows["pseudonym"], list(found))])
    where = "WHERE (shard, round, slice)=(?, ?, ?)"
    old = database.rows(f"SELECT key FROM segments {where} AND key IS NOT NULL", list(key))
    old += database.rows("SELECT key FROM manifests WHERE shard=?", [key.shard])
    home.write({name: fresh}, [])
    try:
        with database.transaction():
            for aside in found.values():
                database.run(
                    f"UPDATE pieces SET quarantined=?, verdict=? {where} AND upload=?",
                    [aside.since, aside.verdict, *key, aside.upload],
                )
            database.run(f"UPDATE segments SET samples=?, key=?, sealed_digests=? {where}", [left, name, sealed, *key])
            database.run("DELETE FROM manifests WHERE shard=?", [key.shard])
    except BaseException:
        home.garbage.doubt([name])
        raise
    home.garbage.update([bytes(each) for (each,) in old])
    return found


def give_back(home: "Home") -> None:
    """In the transaction of a request that takes effect: what the ledger reinstated is in its segments again."""
    for key in home.ledger.reinstated:
        home.database.run(
            "UPDATE pieces SET quarantined=NULL, verdict=NULL WHERE (shard, round, slice)=(?, ?, ?)", list(key)
        )
