"""Bring what an older format or a restored backup left behind up to date, a few uploads at a time.

- Uploads of formats 1 to 4 have positions that are ranks of digests, so a gap among them confirms a guess of what was
  forgotten. They are written anew: random positions, and a handle for each row.
- Segments without a list of digests get one, users that are in no chunk of the directory are added to it.

Each step is one transaction; what a crash leaves undone is done by the next opening for writing. An upload whose blocks
cannot be read stays as it is: `cause doctor` names it.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cause import positions as pos
from cause.arrays import ArrayUpload
from cause.errors import HomeError, VaultError
from cause.home.seals import seal_digests, upload_key
from cause.home.uploads import Blocks, cut
from cause.samples import SegmentKey
from cause.vault import open_sealed, seal

if TYPE_CHECKING:
    from cause.home.home import Home

UPLOADS = 256
"""The most uploads that one step writes anew."""
BYTES = 32 << 20
"""And about how many bytes of samples."""
SEGMENTS = 64


def upgrade(home: "Home") -> None:
    """Do all that is left to do. The caller holds the device's lock, and no accepted request waits for its effect."""
    skipped: set[int] = set()
    while batch := _unshuffled(home, skipped):
        _shuffle(home, batch, skipped)
    while keys := home.database.rows(f"SELECT shard, round, slice FROM segments WHERE key IS NULL LIMIT {SEGMENTS}"):
        if not _add_digests(home, [SegmentKey(*key) for key in keys]):
            break
    change = home.directory.plan()
    if change.rows or change.chunks or change.removed:
        home.directory.seal(change, home.vault)
        home.write(change.keys, [])
        with home.database.transaction():
            home.directory.write(change, home.database)
        home.directory.apply(change)
        home.garbage.update(change.old_keys)
        home.destroy()


def _unshuffled(home: "Home", skipped: set[int]) -> list[tuple[int, int, int]]:
    """Uploads (id, round, pseudonym) for the next step."""
    rows = home.database.rows(
        "SELECT id, uploads.round, pseudonym, (SELECT sum(bytes) FROM blocks WHERE upload=id) FROM uploads "
        "WHERE shuffled=0 ORDER BY id LIMIT ?",
        [UPLOADS + len(skipped)],
    )
    found, size = [], 0
    for upload, round_, pseudonym, bytes_ in rows:
        if upload not in skipped and size < BYTES:
            found.append((upload, round_, pseudonym))
            size += bytes_ or 0
    return found


def _shuffle(home: "Home", batch: list[tuple[int, int, int]], skipped: set[int]) -> None:
    """Give uploads random positions and their rows handles; one transaction."""
    keys: dict[bytes, bytes] = {}
    contents: list[tuple[bytes, bytes]] = []
    work = []
    for upload, round_, pseudonym in batch:
        names = [
            bytes(n) for (n,) in home.database.rows("SELECT key FROM blocks WHERE upload=? ORDER BY part", [upload])
        ]
        user = home.directory.name(pseudonym)
        try:
            old, new = _permuted(home, Blocks(upload, home.store_, names), user, round_)
        except (HomeError, VaultError):
            skipped.add(upload)
            continue
        blocks = [(os.urandom(16), block) for block in cut(new)]
        keys |= {name: os.urandom(32) for name, _ in blocks}
        sealed = [(name, block.sealed(name, keys[name])) for name, block in blocks]
        contents += sealed
        work.append((upload, round_, pseudonym, user, names, dict(sealed), _places(old, new)))
    if not work:
        return
    home.write(keys, contents)
    try:
        with home.database.transaction():
            for upload, round_, pseudonym, user, names, sizes, place in work:
                _replace(home, upload, round_, pseudonym, user, names, sizes, place)
    except BaseException:
        home.garbage.update(keys)
        raise
    home.ledger.load()
    home.garbage.update(name for *_, names, _, _ in work for name in names)
    home.destroy()


def _permuted(home: "Home", blocks: Blocks, user: str, round_: int) -> tuple[ArrayUpload, ArrayUpload]:
    """An upload as it is, and with random positions 0, 1, 2 …"""
    meta = blocks.metas()
    ids, digests = ([row.tobytes() for row in part] for part in (meta.ids, meta.digests))
    x = blocks.inputs(meta.positions)
    old = ArrayUpload.restored(user, round_, meta.positions, x, meta.labels, digests, ids)
    return old, old.shuffled(home.permutation(len(ids)))


def random_permutation(count: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """An order that nobody can draw again: its seed is not kept."""
    return np.random.default_rng(int.from_bytes(os.urandom(32), "big")).permutation(count)


def _places(old: ArrayUpload, new: ArrayUpload) -> dict[int, int]:
    """The new position of each old one."""
    at = {name: position for position, name in enumerate(new.rows()[3])}
    return {int(position): at[name] for position, name in zip(pos.array(old.positions), old.rows()[3], strict=True)}


def _replace(
    home: "Home", upload: int, round_: int, pseudonym: int, user: str, names: list[bytes], new: dict[bytes, bytes],
    place: dict[int, int],
) -> None:  # fmt: skip
    """In a transaction: an upload's rows name its new blocks and positions."""
    database, sealing = home.database, upload_key(home.vault, new)
    for shard, slice_, held in database.rows("SELECT shard, slice, positions FROM pieces WHERE upload=?", [upload]):
        moved = pos.of(place[position] for position in pos.array(pos.from_runs(bytes(held))).tolist())
        where = [pos.runs(moved), upload, shard, slice_]
        database.run("UPDATE pieces SET positions=? WHERE (upload, shard, slice)=(?, ?, ?)", where)
    for seq, sealed in database.rows(
        "SELECT seq, sealed_classes FROM history WHERE kind='add' AND pseudonym=? AND round=? "
        "AND sealed_classes IS NOT NULL",
        [pseudonym, round_],
    ):
        try:
            classes = seal(sealing, open_sealed(upload_key(home.vault, names), bytes(sealed), b"classes"), b"classes")
        except VaultError:
            classes = None
        database.run("UPDATE history SET sealed_classes=? WHERE seq=?", [classes, seq])
    database.run("DELETE FROM blocks WHERE upload=?", [upload])
    rows = [(name, upload, part, len(data)) for part, (name, data) in enumerate(new.items())]
    database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
    first = next(iter(new))
    sealed_user = seal(home.vault.key(first), user.encode(), b"user" + first)
    database.run("UPDATE uploads SET sealed_user=?, shuffled=1 WHERE id=?", [sealed_user, upload])


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
