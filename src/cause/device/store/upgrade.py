"""Bring what an older format or a restored backup left behind up to date, a few uploads at a time.

- Uploads of formats 1 to 4 that have lost samples are written anew with random positions (`relayout`).
- Segments without a list of digests get one; users that are in no chunk of the directory are added to it.

Each step is one transaction; what a crash leaves undone is done by the next opening for writing. An upload whose blocks
cannot be read stays as it is: `cause doctor` names it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cause.common import positions as pos
from cause.device.store.relayout import RANDOM, UNCHECKED, moved, permuted
from cause.device.store.seals import name_bytes, seal_digests
from cause.device.store.stored_upload import Blocks
from cause.engine.samples import SegmentKey
from cause.errors import HomeError, VaultError

if TYPE_CHECKING:
    from cause.device.store.home import Home

UPLOADS = 256
"""The most uploads that one step writes anew."""
BYTES = 32 << 20
"""And about how many bytes of samples."""
SEGMENTS = 64


@dataclass(frozen=True)
class _Upload:
    id: int
    user: str
    old: list[bytes]
    new: dict[bytes, bytes]
    """Sealed blocks by name."""
    places: dict[int, int]


def upgrade(home: "Home") -> None:
    """Do all that is left to do. The caller holds the device's lock, and no accepted request waits for its effect."""
    skipped: set[int] = set()
    while batch := _to_renumber(home, skipped):
        _renumber(home, batch, skipped)
    while keys := home.database.rows(f"SELECT shard, round, slice FROM segments WHERE key IS NULL LIMIT {SEGMENTS}"):
        if not _add_digests(home, [SegmentKey(*key) for key in keys]):
            break
    change = home.directory.plan()
    if change.chunks or change.removed:
        home.directory.seal(change, home.vault)
        home.write(change.keys, [])
        with home.database.transaction():
            home.directory.write(change, home.database)
        home.directory.apply(change)
        home.garbage.update(change.old_keys)
        home.destroy()


def _to_renumber(home: "Home", skipped: set[int]) -> list[tuple[int, int, int]]:
    """Uploads (id, round, pseudonym) for the next step."""
    rows = home.database.rows(
        "SELECT id, uploads.round, pseudonym, (SELECT sum(bytes) FROM blocks WHERE upload=id) FROM uploads "
        f"WHERE layout={UNCHECKED} ORDER BY id LIMIT ?",
        [UPLOADS + len(skipped)],
    )
    found, size = [], 0
    for upload, round_, pseudonym, bytes_ in rows:
        if upload not in skipped and size < BYTES:
            found.append((upload, round_, pseudonym))
            size += bytes_ or 0
    return found


def _renumber(home: "Home", batch: list[tuple[int, int, int]], skipped: set[int]) -> None:
    """Write uploads anew with random positions; one transaction."""
    keys: dict[bytes, bytes] = {}
    work: list[_Upload] = []
    for upload, round_, pseudonym in batch:
        rows = home.database.rows("SELECT key FROM blocks WHERE upload=? ORDER BY part", [upload])
        old, user, nothing = [bytes(name) for (name,) in rows], home.directory.name(pseudonym), pos.array(range(0))
        try:
            blocks, places = permuted(home, Blocks(upload, home.store_, old), user, round_, nothing, {})
        except (HomeError, VaultError):
            skipped.add(upload)
            continue
        new = {}
        for block in blocks:
            name = os.urandom(16)
            keys[name] = os.urandom(32)
            new[name] = block.sealed(name, keys[name])
        work.append(_Upload(upload, user, old, new, places))
    if not work:
        return
    home.write(keys, [each for upload in work for each in upload.new.items()])
    try:
        with home.database.transaction():
            for each in work:
                _replace(home, each)
    except BaseException:
        home.garbage.doubt(keys)
        raise
    home.ledger.committed({}, [each.id for each in work])
    home.garbage.update(name for each in work for name in each.old)
    home.destroy()


def _replace(home: "Home", upload: _Upload) -> None:
    """In a transaction: an upload's rows name its new blocks and positions. Its classes are in the history no more."""
    database = home.database
    for shard, slice_, held in database.rows("SELECT shard, slice, positions FROM pieces WHERE upload=?", [upload.id]):
        row = [pos.runs(moved(pos.from_runs(bytes(held)), upload.places)), upload.id, shard, slice_]
        database.run("UPDATE pieces SET positions=? WHERE (upload, shard, slice)=(?, ?, ?)", row)
    database.run("DELETE FROM blocks WHERE upload=?", [upload.id])
    rows = [(name, upload.id, part, len(data)) for part, (name, data) in enumerate(upload.new.items())]
    database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
    first = next(iter(upload.new))
    sealed = home.vault.seal(first, name_bytes(upload.user), b"user" + first)
    database.run("UPDATE uploads SET sealed_user=?, layout=? WHERE id=?", [sealed, RANDOM, upload.id])


def _add_digests(home: "Home", segments: list[SegmentKey]) -> int:
    """Seal the lists of digests of these segments; how many could be made."""
    found = list(_digests(home, segments))
    home.write({name: key for name, key, _, _ in found}, [])
    with home.database.transaction():
        home.database.many(
            "UPDATE segments SET key=?, sealed_digests=? WHERE (shard, round, slice)=(?, ?, ?)",
            [[name, sealed, *segment] for name, _, segment, sealed in found],
        )
    return len(found)


def _digests(home: "Home", segments: list[SegmentKey]) -> Iterator[tuple[bytes, bytes, SegmentKey, bytes]]:
    for segment in segments:
        name, key = os.urandom(16), os.urandom(32)
        try:
            rows = home.ledger.digests(segment)
        except HomeError:
            continue
        yield name, key, segment, seal_digests(key, segment, rows)
