"""Brings rows of an older format or of a restored backup up to date, a few uploads at a time.

- Uploads of formats 1 to 4 that have lost samples are written anew with random positions (`relayout`).
- Segments without a list of digests get one; users that are in no chunk of the directory are added to it.

Each step is one transaction; after a crash the next opening for writing goes on. An upload whose blocks cannot be read
stays as it is: `cause doctor` names it.
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
"""The most uploads that one step rewrites."""
BYTES = 32 << 20
"""About how many bytes of samples one step rewrites."""
SEGMENTS = 64
"""The most segments that get digests in one step."""


@dataclass(frozen=True)
class _Upload:
    id: int
    user: str
    old: list[bytes]
    new: dict[bytes, bytes]
    """Sealed blocks by name."""
    places: dict[int, int]


def upgrade(home: "Home") -> None:
    """Do all steps. The caller holds the device's lock, and no accepted request may wait for its effect.

    Raises
    ------
    HomeError, VaultError
        If the disk refuses. The next opening goes on.
    """
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
    """The uploads of the next step: id, round and pseudonym."""
    rows = home.database.rows(
        "SELECT id, uploads.round, pseudonym, (SELECT sum(bytes) FROM blocks WHERE upload=id) FROM uploads "
        f"WHERE layout={UNCHECKED} ORDER BY id LIMIT ?",
        [UPLOADS + len(skipped)],
    )
    batch, size = [], 0
    for upload, round_, pseudonym, bytes_ in rows:
        if upload not in skipped and size < BYTES:
            batch.append((upload, round_, pseudonym))
            size += bytes_ or 0
    return batch


def _renumber(home: "Home", batch: list[tuple[int, int, int]], skipped: set[int]) -> None:
    """Rewrite uploads with random positions, in one transaction; unreadable ones are added to `skipped`."""
    keys: dict[bytes, bytes] = {}
    work: list[_Upload] = []
    for id_, round_, pseudonym in batch:
        rows = home.database.rows("SELECT key FROM blocks WHERE upload=? ORDER BY part", [id_])
        old, user, nothing = [bytes(name) for (name,) in rows], home.directory.name(pseudonym), pos.array(range(0))
        try:
            blocks, places = permuted(home, Blocks(id_, home.store_, old), user, round_, nothing, {})
        except (HomeError, VaultError):
            skipped.add(id_)
            continue
        new = {}
        for block in blocks:
            name = os.urandom(16)
            keys[name] = os.urandom(32)
            new[name] = block.sealed(name, keys[name])
        work.append(_Upload(id_, user, old, new, places))
    if not work:
        return
    home.write(keys, [block for upload in work for block in upload.new.items()])
    try:
        with home.database.transaction():
            for upload in work:
                _replace(home, upload)
    except BaseException:
        home.garbage.doubt(keys)
        raise
    home.ledger.committed({}, [upload.id for upload in work])
    home.garbage.update(name for upload in work for name in upload.old)
    home.destroy()


def _replace(home: "Home", upload: _Upload) -> None:
    """Replace an upload's blocks and positions in the tables; call it in a transaction."""
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
    """Store sealed lists of digests for these segments; return how many could be computed."""
    digests = list(_digests(home, segments))
    home.write({name: key for name, key, _, _ in digests}, [])
    with home.database.transaction():
        home.database.many(
            "UPDATE segments SET key=?, sealed_digests=? WHERE (shard, round, slice)=(?, ?, ?)",
            [[name, sealed, *segment] for name, _, segment, sealed in digests],
        )
    return len(digests)


def _digests(home: "Home", segments: list[SegmentKey]) -> Iterator[tuple[bytes, bytes, SegmentKey, bytes]]:
    for segment in segments:
        name, key = os.urandom(16), os.urandom(32)
        try:
            rows = home.ledger.digests(segment)
        except HomeError:
            continue
        yield name, key, segment, seal_digests(key, segment, rows)
