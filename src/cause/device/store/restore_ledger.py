"""Deletes from a restored ledger what cannot be read any more, as if it had been forgotten."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from cause.common import positions as pos
from cause.device.store.blocks import Meta
from cause.device.store.database import Database
from cause.device.store.seals import name_bytes, name_of
from cause.device.store.tables import Tables
from cause.device.vault import Vault, open_sealed, seal
from cause.engine.samples import SegmentKey
from cause.errors import VaultError

_NOTHING: dict[str, Any] = {"shards": [], "rsn": 0, "round": 0, "touched": [], "exports": []}


@dataclass(frozen=True)
class PrunedRows:
    """What was deleted from the ledger."""

    samples: int = 0
    uploads: int = 0
    """How many uploads lost all their samples."""
    sub_models: int = 0
    requests: int = 0
    """How many requests were served after the ledger was written; they are marked as served."""


def prune(
    database: Database,
    vault: Vault,
    blocks: Collection[bytes],
    sub_models: Collection[bytes],
    meta: Callable[[bytes], Meta],
    now: float,
) -> PrunedRows:
    """Delete lost blocks and sub-models from the tables, with all that depends on them, in one transaction.

    Parameters
    ----------
    database, vault
        The ledger, and the keys.
    blocks, sub_models
        The names of the lost ones.
    meta
        Reads the positions in a block that is left, by its name.
    now
        The time of the restore.
    """
    with database.transaction():
        work = _Pruning(database, vault, set(blocks), meta)
        work.uploads()
        work.staged()
        dropped = work.sub_models(set(sub_models))
        touched = sorted({*work.first, *(key.shard for key in dropped)})
        database.many("INSERT OR IGNORE INTO behind (shard, since) VALUES (?, ?)", [[shard, now] for shard in touched])
        work.exports(now)
        work.manifests()
        return PrunedRows(work.samples, work.emptied, len(dropped), work.requests(now))


class _Pruning:
    """The steps of `prune`, and what they have deleted so far."""

    def __init__(self, database: Database, vault: Vault, lost: set[bytes], meta: Callable[[bytes], Meta]) -> None:
        self.database, self.vault, self.lost, self.meta = database, vault, lost, meta
        self.tables = Tables(database)
        self.samples = self.emptied = 0
        self.changed: set[SegmentKey] = set()
        self.first: dict[int, SegmentKey] = {}
        """The first segment of each shard that lost something."""

    def uploads(self) -> None:
        """Delete the lost blocks of uploads and the samples in them."""
        blocks: dict[int, list[tuple[bytes, int]]] = {}
        for upload, name, size in self.database.rows("SELECT upload, key, bytes FROM blocks ORDER BY upload, part"):
            blocks.setdefault(upload, []).append((bytes(name), size))
        rows = self.database.rows("SELECT id, round, pseudonym, sealed_user FROM uploads ORDER BY id")
        users = self._users([(id_, pseudonym, bytes(sealed)) for id_, _, pseudonym, sealed in rows], blocks)
        for upload, round_, pseudonym, _ in rows:
            before = blocks.get(upload, [])
            left = [block for block in before if block[0] not in self.lost] if pseudonym in users else []
            if not before or len(left) < len(before):
                first = before[0][0] if before else b""
                self._cut(upload, round_, pseudonym, first, left, users.get(pseudonym, ""))
        self._give_back()
        self._segments()

    def _give_back(self) -> None:
        """End the quarantine in segments that are replayed: their samples are judged anew."""
        for shard, round_, slice_ in self.database.rows(
            "SELECT DISTINCT shard, round, slice FROM pieces WHERE quarantined IS NOT NULL"
        ):
            key = SegmentKey(shard, round_, slice_)
            if shard in self.first and key >= self.first[shard]:
                where = "WHERE (shard, round, slice)=(?, ?, ?)"
                self.database.run(f"UPDATE pieces SET quarantined=NULL, verdict=NULL {where}", list(key))
                self.changed.add(key)

    def _segments(self) -> None:
        """Update the samples of changed segments, and delete digests and names whose keys are destroyed.

        Opening the home makes those again (`cause.device.store.upgrade`).
        """
        for key in self.changed:
            rows = self.database.rows("SELECT positions FROM pieces WHERE (shard, round, slice)=(?, ?, ?)", list(key))
            samples = sum(len(pos.from_runs(bytes(held))) for (held,) in rows)  # none of them is in quarantine
            self.tables.samples.update_segments({key: (samples, None, None) if samples else None})
        for *where, name in self.database.rows("SELECT shard, round, slice, key FROM segments WHERE key IS NOT NULL"):
            if bytes(name) not in self.vault:
                self.database.run(
                    "UPDATE segments SET key=NULL, sealed_digests=NULL WHERE (shard, round, slice)=(?, ?, ?)", where
                )
        for chunk, name in self.database.rows("SELECT chunk, key FROM directory"):
            if bytes(name) not in self.vault:
                self.database.run("DELETE FROM directory WHERE chunk=?", [chunk])

    def staged(self) -> None:
        """Delete staged uploads of which a block is lost."""
        rows = self.database.rows("SELECT upload, key, samples FROM staged")
        lost = {upload for upload, name, _ in rows if bytes(name) in self.lost}
        for upload in lost:
            self.database.run("DELETE FROM staged WHERE upload=?", [upload])
            self.database.run("UPDATE calls SET samples=0 WHERE id=?", [upload])
        self.samples += sum(samples for upload, _, samples in rows if upload in lost)
        self.emptied += len(lost)

    def _users(self, rows: list[tuple[int, int, bytes]], blocks: dict[int, list[tuple[bytes, int]]]) -> dict[int, str]:
        """Return names by pseudonym, as far as an upload of the user can still be read."""
        users: dict[int, str] = {}
        for upload, pseudonym, sealed in rows:
            first = blocks[upload][0][0] if upload in blocks else None
            if first is None or first not in self.vault:
                continue
            try:
                users[pseudonym] = name_of(open_sealed(self.vault.key(first), sealed, b"user" + first))
            except (VaultError, UnicodeDecodeError):
                continue
        return users

    def _cut(
        self, upload: int, round_: int, pseudonym: int, first: bytes, left: list[tuple[bytes, int]], user: str
    ) -> None:
        """Delete all samples of an upload but those in the blocks `left` (name and size)."""
        database = self.database
        kept = pos.union([pos.from_values(self.meta(name).positions.tolist()) for name, _ in left])
        pieces = database.rows(
            "SELECT shard, round, slice, positions, quarantined, verdict FROM pieces WHERE upload=?", [upload]
        )
        database.run("DELETE FROM pieces WHERE upload=?", [upload])
        deleted: dict[int, int] = {}
        for shard, of_round, slice_, held, *aside in pieces:
            key, before = SegmentKey(shard, of_round, slice_), pos.from_runs(bytes(held))
            after = pos.common(before, kept)
            if len(after):
                row = [upload, *key, pos.runs(after), *aside]
                database.run(
                    "INSERT INTO pieces (upload, shard, round, slice, positions, quarantined, verdict) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
            if len(after) < len(before):
                database.run("UPDATE uploads SET layout=0 WHERE id=? AND layout=2", [upload])
                deleted[shard] = deleted.get(shard, 0) + len(before) - len(after)
                self.changed.add(key)
                self.first[shard] = min(key, self.first.get(shard, key))
        database.many(
            "INSERT INTO history (kind, round, pseudonym, of_round, samples, shard) VALUES ('forget', ?, ?, ?, ?, ?)",
            [[database.get("round", round_), pseudonym, round_, count, shard] for shard, count in deleted.items()],
        )
        self.tables.samples.forget_classes(pseudonym, round_)
        self.tables.staged.forgotten(upload, round_)
        self.samples += sum(deleted.values())
        database.run("DELETE FROM blocks WHERE upload=?", [upload])
        if not left:
            self.emptied += 1
            database.run("DELETE FROM uploads WHERE id=?", [upload])
            return
        rows = [[name, upload, part, size] for part, (name, size) in enumerate(left)]
        database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
        if left[0][0] != first:
            sealed = seal(self.vault.key(left[0][0]), name_bytes(user), b"user" + left[0][0])
            database.run("UPDATE uploads SET sealed_user=? WHERE id=?", [sealed, upload])

    def manifests(self) -> None:
        """Delete the names of keys that committed to shards' data, if that has changed or they are destroyed."""
        for shard in self.first:
            self.tables.requests.delete_manifest_keys(shard)
        for (name,) in self.database.rows("SELECT key FROM manifests"):
            if bytes(name) not in self.vault:
                self.database.run("DELETE FROM manifests WHERE key=?", [name])

    def sub_models(self, lost: set[bytes]) -> list[SegmentKey]:
        """Delete sub-models that are lost or saw a deleted sample, and return them."""
        dropped = []
        for shard, round_, slice_, name in self.database.rows("SELECT shard, round, slice, key FROM sub_models"):
            key = SegmentKey(shard, round_, slice_)
            if bytes(name) in lost or (shard in self.first and key >= self.first[shard]):
                self.database.run("DELETE FROM sub_models WHERE key=?", [name])
                dropped.append(key)
        return dropped

    def exports(self, now: float) -> None:
        """Mark exports that saw a deleted sample."""
        for export, heads in self.database.rows("SELECT id, heads FROM exports WHERE tainted IS NULL"):
            keys = [SegmentKey(*head) for head in json.loads(heads)]
            if any(key.shard in self.first and key >= self.first[key.shard] for key in keys):
                self.database.run("UPDATE exports SET tainted=? WHERE id=?", [now, export])

    def requests(self, now: float) -> int:
        """Mark requests whose key is destroyed as served, and count them: they took effect after this ledger."""
        served = 0
        for id_, name in self.database.rows("SELECT id, key FROM requests WHERE effective IS NULL"):
            if bytes(name) not in self.vault:
                served += 1
                self.database.run(
                    "UPDATE requests SET effective=?, key=NULL, sealed=NULL, batch=id, samples=0, covered=?, "
                    "destroyed=? WHERE id=?",
                    [now, json.dumps(_NOTHING), now, id_],
                )
        return served
