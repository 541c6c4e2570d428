"""Forgetting on the disk: blocks are rewritten without the samples, the tables change, and old keys are destroyed."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cause.common import positions as pos
from cause.common.names import fold
from cause.common.positions import Positions
from cause.device.store.database import Database
from cause.device.store.directory import DirectoryChange
from cause.device.store.inbox import StagedRemoval
from cause.device.store.pending import requests_of
from cause.device.store.quarantining import give_back
from cause.device.store.relayout import RANDOM, moved, permuted
from cause.device.store.repeats import void
from cause.device.store.seals import name_bytes, seal_digests
from cause.device.store.shares import Share, shares_of
from cause.device.store.stored_upload import Blocks
from cause.engine.ledger import Selection
from cause.engine.plan import ShardPlan
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey

if TYPE_CHECKING:
    from cause.device.store.home import Home


class Rewrite:
    """The changes that forgetting makes on the disk: new keys and blocks, old names, and rows of the tables."""

    def __init__(self) -> None:
        self.keys: dict[bytes, bytes] = {}
        """New keys by name."""
        self.contents: list[tuple[bytes, bytes]] = []
        """New sealed blocks: name and bytes."""
        self.old: list[bytes] = []
        """Names of keys and blocks to destroy once the transaction is durable."""
        self.left: dict[tuple[str, int], tuple[Blocks, list[bytes]]] = {}
        """By upload: its blocks before, and the names of its blocks afterwards."""
        self.segments: dict[SegmentKey, tuple[int, bytes | None, bytes | None] | None] = {}
        """By touched segment: samples left, its new key's name and its sealed digests; None if it is empty."""
        self.places: dict[tuple[str, int], dict[int, int]] = {}
        """By upload whose positions are drawn anew: the new position of each old one."""
        self.users: list[str] = []
        """Users of whom nothing is left."""
        self.directory = DirectoryChange()

    def new_key(self) -> bytes:
        """Add a fresh key and return its name."""
        name = os.urandom(16)
        self.keys[name] = os.urandom(32)
        return name


def effect(
    home: "Home", ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
) -> int:
    """Delete samples and tainted sub-models from the disk, in one transaction, and then destroy their keys.

    Parameters
    ----------
    ids
        The requests, as `pending.accept` recorded them.
    selection
        The samples to delete, by user and round; ledger and memory hold what is left already.
    plans
        What the deletion touches, by shard.
    dropped
        The sub-models that the memory dropped because they saw the samples.

    Returns
    -------
    How many staged samples were deleted.

    Raises
    ------
    HomeError, VaultError
        If the disk refuses. If the transaction was committed before, the keys are destroyed by the next erasure or
        opening, and the receipts are signed after that.
    """
    requests = requests_of(home, ids)
    rewrite = _planned(home, selection, requests)
    evidence = home.receipts.evidence(plans, dropped)
    staged, to_delete = home.inbox.removal(requests), home.shelf.to_delete()
    keys = {**rewrite.keys, **evidence.keys, **staged.keys}
    home.write(keys, [*rewrite.contents, *staged.contents])
    shares = shares_of(home, requests, selection)
    try:
        with home.database.transaction():
            apply(home, rewrite, selection)
            home.inbox.remove(staged)
            home.delete_sub_models(to_delete)
            home.receipts.replace_keys(ids[0], evidence)
            _mark(home, ids, shares, plans, evidence.covered, dropped)
    except BaseException:
        home.garbage.doubt(keys)
        raise
    home.shelf.deleted(to_delete)
    rewrite.old += [*evidence.old, *staged.old, *rewrite.directory.old_keys, *to_delete]
    _destroy(home, ids, rewrite, staged)
    home.receipts.issue()
    return staged.samples


def _planned(home: "Home", selection: Selection, requests: Sequence[Request]) -> Rewrite:
    """All changes on the disk that deleting these samples needs."""
    rewrite, ledger = Rewrite(), home.ledger
    named: dict[str, set[str]] = {}
    for request in requests:
        named.setdefault(fold(request.user), set()).update(request.handles or ())
    touched: set[SegmentKey] = set()
    for (user, round_), forgotten in selection.items():
        blocks = ledger.upload(user, round_).blocks
        handles = named.get(fold(user), set())
        rewrite.left[user, round_] = blocks, _rewrite(home, rewrite, blocks, user, round_, forgotten, handles)
        recorded = ledger.recorded_pieces(blocks.upload_id)
        touched |= {key for key, held in recorded if len(pos.common(held, forgotten))}
    touched |= ledger.reinstated
    for key in sorted(touched):
        (old,) = home.database.row("SELECT key FROM segments WHERE (shard, round, slice)=(?, ?, ?)", list(key))
        rewrite.old += [] if old is None else [bytes(old)]
        rewrite.segments[key] = None
        if key in ledger.lineage(key.shard):
            name = rewrite.new_key()
            sealed = seal_digests(rewrite.keys[name], key, ledger.digests(key))
            rewrite.segments[key] = ledger.lineage(key.shard)[key].count, name, sealed
    rewrite.users = sorted({user for user, _ in selection if not ledger.rounds_of(user)})
    rewrite.directory = home.directory.plan(removed=rewrite.users)
    home.directory.seal(rewrite.directory, home.vault)
    rewrite.keys |= rewrite.directory.keys
    return rewrite


def _rewrite(
    home: "Home", rewrite: Rewrite, blocks: Blocks, user: str, round_: int, forgotten: Positions, named: set[str]
) -> list[bytes]:
    """Rewrite the blocks of an upload that hold forgotten samples, and return the names of its blocks afterwards.

    Parameters
    ----------
    rewrite
        Gets the new blocks and the names of the old ones.
    blocks, user, round_
        The upload.
    forgotten
        The positions of its forgotten samples.
    named
        The handles that the requests of this user name.
    """
    if not home.ledger.pieces_of(user, round_):  # nothing is left, so a damaged block need not be read
        rewrite.old += blocks.names
        return []
    deleted, left = pos.array(forgotten), []
    handles = _moved_handles(blocks, forgotten, named)
    (layout,) = home.database.row("SELECT layout FROM uploads WHERE id=?", [blocks.upload_id])
    if layout != RANDOM:  # positions are ranks of digests, and a gap among them would tell what is missing
        new_blocks, rewrite.places[user, round_] = permuted(home, blocks, user, round_, deleted, handles)
        rewrite.old += blocks.names
        for block in new_blocks:
            left.append(rewrite.new_key())
            rewrite.contents.append((left[-1], block.sealed(left[-1], rewrite.keys[left[-1]])))
        return left
    for name in blocks.names:
        held = home.store_.meta(name).positions
        stay = ~np.isin(held, deleted, assume_unique=True)
        renamed = np.isin(held, list(handles))
        if stay.all() and not renamed.any():
            left.append(name)
            continue
        rewrite.old.append(name)
        if stay.any():
            new = rewrite.new_key()
            block = home.store_.block(name).with_handles(handles).keeping(stay)
            rewrite.contents.append((new, block.sealed(new, rewrite.keys[new])))
            left.append(new)
    return left


def _moved_handles(blocks: Blocks, forgotten: Positions, named: set[str]) -> dict[int, bytes]:
    """New handles, by position, of rows that stay although their handle was named.

    Of identical samples the one with the highest ordinal is deleted, whichever was named, so that the rest keep the ids
    that they would have had without it. The named handle is deleted all the same: its row gets the handle of the
    deleted row.
    """
    if not named:
        return {}
    meta = blocks.metas()
    going = np.isin(meta.positions, pos.array(forgotten), assume_unique=True)
    handles = [row.tobytes() for row in meta.handles]
    spare: dict[bytes, list[bytes]] = {}
    for row in np.flatnonzero(going).tolist():
        if handles[row].hex() not in named:
            spare.setdefault(meta.digests[row].tobytes(), []).append(handles[row])
    staying = [row for row in np.flatnonzero(~going).tolist() if handles[row].hex() in named]
    return {int(meta.positions[row]): spare[meta.digests[row].tobytes()].pop() for row in staying}


def apply(home: "Home", rewrite: Rewrite, selection: Selection) -> None:
    """Change the tables so that they hold what is left; call it in a transaction."""
    database, sizes = home.database, {name: len(data) for name, data in rewrite.contents}
    for (user, round_), (blocks, left) in rewrite.left.items():
        upload = blocks.upload_id
        pseudonym = home.directory.pseudonym(user)
        assert pseudonym is not None
        database.many(
            "INSERT INTO history (kind, round, pseudonym, of_round, samples, shard) VALUES ('forget', ?, ?, ?, ?, ?)",
            _history_lines(home, upload, pseudonym, round_, selection[user, round_]),
        )
        forget_classes(database, pseudonym, round_)
        database.run("DELETE FROM pieces WHERE upload=?", [upload])
        kept = dict(database.rows("SELECT key, bytes FROM blocks WHERE upload=?", [upload]))
        database.run("DELETE FROM blocks WHERE upload=?", [upload])
        if not left:
            database.run("DELETE FROM uploads WHERE id=?", [upload])
            continue
        rows = [(name, upload, part, sizes.get(name) or kept[name]) for part, name in enumerate(left)]
        database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
        if left[0] != blocks.names[0]:
            sealed = home.vault.seal(left[0], name_bytes(user), b"user" + left[0])
            database.run("UPDATE uploads SET sealed_user=? WHERE id=?", [sealed, upload])
        database.many(
            "INSERT INTO pieces (upload, shard, round, slice, positions, quarantined, verdict) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                [upload, *key, pos.runs(moved(held, rewrite.places.get((user, round_)))),
                 *((None, None) if (aside := home.ledger.aside(key, user)) is None else aside[1:])]
                for key, held in home.ledger.pieces_of(user, round_)
            ],
        )  # fmt: skip
        database.run("UPDATE uploads SET layout=? WHERE id=?", [RANDOM, upload])
    give_back(home)
    update_segments(database, rewrite.segments)
    home.directory.write(rewrite.directory, database)


def update_segments(
    database: Database, segments: Mapping[SegmentKey, tuple[int, bytes | None, bytes | None] | None]
) -> None:
    """Update the rows of touched segments, or delete those of empty ones; call it in a transaction.

    Parameters
    ----------
    segments
        By segment: samples left, its new key's name and its sealed digests; None if it is empty.
    """
    where = "WHERE (shard, round, slice)=(?, ?, ?)"
    for key, row in segments.items():
        if row is None:
            database.run(f"DELETE FROM segments {where}", list(key))
        else:
            database.run(f"UPDATE segments SET samples=?, key=?, sealed_digests=? {where}", [*row, *key])


def _history_lines(home: "Home", upload: int, pseudonym: int, round_: int, forgotten: Positions) -> list[list[object]]:
    """Rows for the history: how many samples were deleted, by shard, under the user's pseudonym."""
    lost: dict[int, int] = {}
    for key, held in home.ledger.recorded_pieces(upload):
        lost[key.shard] = lost.get(key.shard, 0) + len(pos.common(held, forgotten))
    return [[home.ledger.round, pseudonym, round_, count, shard] for shard, count in lost.items() if count]


def _mark(
    home: "Home",
    ids: Sequence[str],
    shares: Sequence[Share],
    plans: Sequence[ShardPlan],
    covered: dict[str, Any],
    dropped: Sequence[SegmentKey],
) -> None:
    """Record that the requests are in effect, and what they touched; call it in a transaction."""
    now = home.clock()
    covered = {**covered, "exports": _taint(home, now, plans, dropped)}
    for id_, share in zip(ids, shares, strict=True):
        touched = [shard | {"samples": share.shards[shard["shard"]]} for shard in covered["touched"]]
        own = covered | {"staged": share.staged, "touched": touched}
        home.database.run(
            "UPDATE requests SET effective=?, key=NULL, sealed=NULL, batch=?, samples=?, covered=? WHERE id=?",
            [now, ids[0], share.samples, json.dumps(own), id_],
        )
    rows = [[plan.shard, now] for plan in plans]
    home.database.many("INSERT OR IGNORE INTO behind (shard, since) VALUES (?, ?)", rows)


def _taint(home: "Home", now: float, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]) -> list[str]:
    """Mark the exports that hold a sub-model which may have seen the samples, and return their ids."""
    tainted, exports = set(dropped), []
    first = {plan.shard: plan.first for plan in plans}
    for export, heads in home.database.rows("SELECT id, heads FROM exports WHERE tainted IS NULL ORDER BY made"):
        keys = [SegmentKey(*head) for head in json.loads(heads)]
        if any(key in tainted or (key.shard in first and key >= first[key.shard]) for key in keys):
            home.database.run("UPDATE exports SET tainted=? WHERE id=?", [now, export])
            exports.append(export)
    return exports


def _destroy(home: "Home", ids: Sequence[str], rewrite: Rewrite, staged: StagedRemoval) -> None:
    """Destroy the old keys, now that the transaction is durable; after that no copy of the files can be read."""
    home.garbage.update(rewrite.old, map(bytes.fromhex, ids))
    home.ledger.committed(
        {blocks.upload_id: left for blocks, left in rewrite.left.values()},
        [blocks.upload_id for place, (blocks, _) in rewrite.left.items() if place in rewrite.places],
    )
    home.directory.apply(rewrite.directory, rewrite.users)  # a deleted user who comes back gets a new pseudonym
    home.inbox.removed(staged)
    home.destroy()


def forget_classes(database: Database, pseudonym: int, round_: int) -> None:
    """Delete what would describe the forgotten samples of an upload; call it in a transaction.

    The history has the classes of what arrived: together with what is left they would give those of what was deleted.
    The idempotency key of the upload's round goes too.
    """
    void(database, round_)
    where = "kind='add' AND pseudonym=? AND round=?"
    database.run(f"UPDATE history SET sealed_classes=NULL WHERE {where}", [pseudonym, round_])
