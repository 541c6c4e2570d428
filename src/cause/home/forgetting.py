"""A request takes effect: what is left of its blocks is written anew, the tables let go, and then the keys go."""

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cause import positions as pos
from cause.home.asking import everything_of
from cause.home.database import Database
from cause.home.seals import seal_digest, upload_key
from cause.ledger import Selection
from cause.plan import ShardPlan
from cause.positions import Positions
from cause.samples import SegmentKey
from cause.vault import seal

if TYPE_CHECKING:
    from cause.home.home import Home


class Rewrite:
    """What forgetting does to blocks."""

    def __init__(self) -> None:
        self.keys: dict[bytes, bytes] = {}
        self.contents: list[tuple[bytes, bytes]] = []
        self.old: list[bytes] = []
        self.left: dict[tuple[str, int], list[bytes]] = {}


def effect(
    home: "Home", ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
) -> None:
    """The samples and every tainted sub-model are gone when this returns."""
    rewrite = Rewrite()
    for (user, round_), doomed in selection.items():
        _rewrite(home, rewrite, user, round_, doomed)
    evidence = home.receipts.evidence(plans, dropped)
    home.write({**rewrite.keys, **evidence.keys}, rewrite.contents)
    staged = home.inbox.of(everything_of(home, ids))
    rewrite.old += [name for upload in staged for name in upload.names]
    waiting = sum(upload.samples for upload in staged)
    evidence.covered["staged"] = waiting
    samples = waiting + sum(len(doomed) for doomed in selection.values())
    try:
        with home.database.transaction():
            apply(home, rewrite, selection)
            home.inbox.drop(staged)
            home.let_go()
            home.receipts.replace_keys(ids[0], evidence)
            _mark(home, ids, plans, samples, evidence.covered, dropped)
    except BaseException:
        home.garbage.doubt(rewrite.keys, evidence.keys)
        raise
    rewrite.old += evidence.old
    _destroy(home, ids, rewrite, selection)
    home.inbox.dropped(staged)
    home.receipts.issue()


def _rewrite(home: "Home", rewrite: Rewrite, user: str, round_: int, doomed: Positions) -> None:
    """What is left of an upload's blocks: as they are, written anew, or gone."""
    own, gone = home.blocks[user, round_], pos.array(doomed)
    left: list[bytes] = []
    if not home.ledger.pieces_of(user, round_):  # all of it goes: what cannot be read any more can be destroyed, too
        rewrite.old += own.names
        rewrite.left[user, round_] = left
        return
    for name in own.names:
        stay = ~np.isin(home.store_.meta(name).positions, gone, assume_unique=True)
        if stay.all():
            left.append(name)
            continue
        rewrite.old.append(name)
        if stay.any():
            new, key = os.urandom(16), os.urandom(32)
            rewrite.keys[new] = key
            rewrite.contents.append((new, home.store_.block(name).keeping(stay).sealed(new, key)))
            left.append(new)
    rewrite.left[user, round_] = left


def apply(home: "Home", rewrite: Rewrite, selection: Selection) -> None:
    """In a transaction: the tables hold what is left."""
    database, sizes = home.database, {name: len(data) for name, data in rewrite.contents}
    for (user, round_), left in rewrite.left.items():
        own = home.blocks[user, round_]
        database.many(
            "INSERT INTO history (kind, round, pseudonym, of_round, samples, shard) VALUES ('forget', ?, ?, ?, ?, ?)",
            _lines(home, user, round_, selection[user, round_]),
        )
        forget_classes(database, home.pseudonyms[user], round_)
        database.run("DELETE FROM pieces WHERE upload=?", [own.upload_id])
        kept = dict(database.rows("SELECT key, bytes FROM blocks WHERE upload=?", [own.upload_id]))
        database.run("DELETE FROM blocks WHERE upload=?", [own.upload_id])
        if not left:
            database.run("DELETE FROM uploads WHERE id=?", [own.upload_id])
            continue
        rows = [(name, own.upload_id, part, sizes.get(name) or kept[name]) for part, name in enumerate(left)]
        database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
        if left[0] != own.names[0]:
            sealed = seal(home.vault.key(left[0]), user.encode(), b"user" + left[0])
            database.run("UPDATE uploads SET sealed_user=? WHERE id=?", [sealed, own.upload_id])
        sealing, pieces = upload_key(home.vault, left), []
        for key, held in home.ledger.pieces_of(user, round_):
            known = home.ledger.lineage(key.shard)[key].piece_digest(user)
            pieces.append([own.upload_id, *key, pos.runs(held), seal_digest(sealing, key, known)])
        database.many("INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?)", pieces)
    database.run(
        "DELETE FROM segments WHERE NOT EXISTS (SELECT 1 FROM pieces WHERE "
        "(pieces.shard, pieces.round, pieces.slice)=(segments.shard, segments.round, segments.slice))"
    )


def _lines(home: "Home", user: str, round_: int, doomed: Positions) -> list[list[object]]:
    """Lines for the history: how many went, from which shards, under the user's pseudonym."""
    lost: dict[int, int] = {}
    for shard, held in home.database.rows(
        "SELECT shard, positions FROM pieces WHERE upload=?", [home.blocks[user, round_].upload_id]
    ):
        lost[shard] = lost.get(shard, 0) + len(pos.common(pos.from_runs(bytes(held)), doomed))
    return [[home.ledger.round, home.pseudonyms[user], round_, count, shard] for shard, count in lost.items() if count]


def _mark(
    home: "Home",
    ids: Sequence[str],
    plans: Sequence[ShardPlan],
    samples: int,
    covered: dict[str, Any],
    dropped: Sequence[SegmentKey],
) -> None:
    """In a transaction: the requests are in effect, and this is what they did."""
    now = home.clock()
    covered = {**covered, "exports": _taint(home, now, plans, dropped)}
    for each in ids:
        home.database.run(
            "UPDATE requests SET effective=?, key=NULL, sealed=NULL, batch=?, samples=?, covered=? WHERE id=?",
            [now, ids[0], samples, json.dumps(covered), each],
        )
    home.database.many("INSERT OR IGNORE INTO behind VALUES (?, ?)", [[plan.shard, now] for plan in plans])


def _taint(home: "Home", now: float, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]) -> list[str]:
    """Exports that hold a sub-model which may have seen the samples."""
    tainted, found = set(dropped), []
    first = {plan.shard: plan.first for plan in plans}
    for export, heads in home.database.rows("SELECT id, heads FROM exports WHERE tainted IS NULL ORDER BY made"):
        keys = [SegmentKey(*head) for head in json.loads(heads)]
        if any(key in tainted or (key.shard in first and key >= first[key.shard]) for key in keys):
            home.database.run("UPDATE exports SET tainted=? WHERE id=?", [now, export])
            found.append(export)
    return found


def _destroy(home: "Home", ids: Sequence[str], rewrite: Rewrite, selection: Selection) -> None:
    """The transaction is durable: now the keys go, and with them every copy of what they opened."""
    dropped, home.shelf.doomed = home.shelf.doomed, []
    home.garbage.update(rewrite.old, dropped, map(bytes.fromhex, ids))
    home.destroy()
    for (user, round_), left in rewrite.left.items():
        if left:
            home.blocks[user, round_].names[:] = left
        else:
            del home.blocks[user, round_]
            if not home.ledger.rounds_of(user):
                home.pseudonyms.pop(user, None)  # who returns is new


def forget_classes(database: Database, pseudonym: int, round_: int) -> None:
    """The history knows how many samples of each class arrived; of an upload that lost some it must not."""
    where = "kind='add' AND pseudonym=? AND round=?"
    database.run(f"UPDATE history SET sealed_classes=NULL WHERE {where}", [pseudonym, round_])
