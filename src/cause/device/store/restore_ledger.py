"""Take out of a ledger what nobody can read any more, as if it had been forgotten."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from cause.common import positions as pos
from cause.device.store.blocks import Meta
from cause.device.store.database import Database
from cause.device.store.forgetting import forget_classes, update_segments
from cause.device.store.seals import name_bytes, name_of
from cause.device.vault import Vault, open_sealed, seal
from cause.engine.samples import SegmentKey
from cause.errors import VaultError

_NOTHING: dict[str, Any] = {"shards": [], "rsn": 0, "round": 0, "touched": [], "exports": []}


@dataclass(frozen=True)
class Lost:
    """What left the records."""

    samples: int = 0
    uploads: int = 0
    """Of which nothing is left."""
    sub_models: int = 0
    requests: int = 0
    """That were served after the records were written."""


def prune(
    database: Database,
    vault: Vault,
    blocks: Collection[bytes],
    sub_models: Collection[bytes],
    meta: Callable[[bytes], Meta],
    now: float,
) -> Lost:
    """Let the tables hold what is left without these blocks and sub-models; one transaction."""
    with database.transaction():
        work = _Pruning(database, vault, set(blocks), meta)
        work.uploads()
        work.staged()
        dropped = work.sub_models(set(sub_models))
        touched = sorted({*work.first, *(key.shard for key in dropped)})
        database.many("INSERT OR IGNORE INTO behind (shard, since) VALUES (?, ?)", [[each, now] for each in touched])
        work.exports(now)
        work.manifests()
        return Lost(work.samples, work.emptied, len(dropped), work.requests(now))


class _Pruning:
    def __init__(self, database: Database, vault: Vault, lost: set[bytes], meta: Callable[[bytes], Meta]) -> None:
        self.database, self.vault, self.lost, self.meta = database, vault, lost, meta
        self.samples = self.emptied = 0
        self.changed: set[SegmentKey] = set()
        self.first: dict[int, SegmentKey] = {}
        """The first segment of each shard that lost something."""

    def uploads(self) -> None:
        blocks: dict[int, list[tuple[bytes, int]]] = {}
        for upload, name, size in self.database.rows("SELECT upload, key, bytes FROM blocks ORDER BY upload, part"):
            blocks.setdefault(upload, []).append((bytes(name), size))
        rows = self.database.rows("SELECT id, round, pseudonym, sealed_user FROM uploads ORDER BY id")
        users = self._users([(each, p, bytes(sealed)) for each, _, p, sealed in rows], blocks)
        for upload, round_, pseudonym, _ in rows:
            own = blocks.get(upload, [])
            left = [each for each in own if each[0] not in self.lost] if pseudonym in users else []
            if not own or len(left) < len(own):
                first = own[0][0] if own else b""
                self._cut(upload, round_, pseudonym, first, left, users.get(pseudonym, ""))
        self._give_back()
        self._segments()

    def _give_back(self) -> None:
        """What is in quarantine in segments that are replayed is judged anew: see `cause.engine.quarantine`."""
        for shard, round_, slice_ in self.database.rows(
            "SELECT DISTINCT shard, round, slice FROM pieces WHERE quarantined IS NOT NULL"
        ):
            key = SegmentKey(shard, round_, slice_)
            if shard in self.first and key >= self.first[shard]:
                where = "WHERE (shard, round, slice)=(?, ?, ?)"
                self.database.run(f"UPDATE pieces SET quarantined=NULL, verdict=NULL {where}", list(key))
                self.changed.add(key)

    def _segments(self) -> None:
        """Segments count what is left. What their keys or their users' names need that is gone is made again later."""
        for key in self.changed:
            rows = self.database.rows("SELECT positions FROM pieces WHERE (shard, round, slice)=(?, ?, ?)", list(key))
            samples = sum(len(pos.from_runs(bytes(held))) for (held,) in rows)  # none of them is in quarantine
            update_segments(self.database, {key: (samples, None, None) if samples else None})
        for *where, name in self.database.rows("SELECT shard, round, slice, key FROM segments WHERE key IS NOT NULL"):
            if bytes(name) not in self.vault:
                self.database.run(
                    "UPDATE segments SET key=NULL, sealed_digests=NULL WHERE (shard, round, slice)=(?, ?, ?)", where
                )
        for chunk, name in self.database.rows("SELECT chunk, key FROM directory"):
            if bytes(name) not in self.vault:
                self.database.run("DELETE FROM directory WHERE chunk=?", [chunk])

    def staged(self) -> None:
        """What waited for a round and cannot be read any more: the upload as a whole goes."""
        rows = self.database.rows("SELECT upload, key, samples FROM staged")
        gone = {upload for upload, name, _ in rows if bytes(name) in self.lost}
        for upload in gone:
            self.database.run("DELETE FROM staged WHERE upload=?", [upload])
            self.database.run("UPDATE calls SET samples=0 WHERE id=?", [upload])
        self.samples += sum(samples for upload, _, samples in rows if upload in gone)
        self.emptied += len(gone)

    def _users(self, rows: list[tuple[int, int, bytes]], blocks: dict[int, list[tuple[bytes, int]]]) -> dict[int, str]:
        """Names by pseudonym: of one user some upload may still be readable."""
        users: dict[int, str] = {}
        for upload, pseudonym, sealed in rows:
            own = blocks.get(upload)
            if not own or own[0][0] not in self.vault:
                continue
            first = own[0][0]
            try:
                users[pseudonym] = name_of(open_sealed(self.vault.key(first), sealed, b"user" + first))
            except (VaultError, UnicodeDecodeError):
                continue
        return users

    def _cut(
        self, upload: int, round_: int, pseudonym: int, first: bytes, left: list[tuple[bytes, int]], user: str
    ) -> None:
        """Leave of an upload what these blocks hold."""
        database = self.database
        kept = pos.union([pos.of(self.meta(name).positions.tolist()) for name, _ in left])
        pieces = database.rows(
            "SELECT shard, round, slice, positions, quarantined, verdict FROM pieces WHERE upload=?", [upload]
        )
        database.run("DELETE FROM pieces WHERE upload=?", [upload])
        gone: dict[int, int] = {}
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
                gone[shard] = gone.get(shard, 0) + len(before) - len(after)
                self.changed.add(key)
                self.first[shard] = min(key, self.first.get(shard, key))
        database.many(
            "INSERT INTO history (kind, round, pseudonym, of_round, samples, shard) VALUES ('forget', ?, ?, ?, ?, ?)",
            [[database.get("round", round_), pseudonym, round_, count, shard] for shard, count in gone.items()],
        )
        forget_classes(database, pseudonym, round_)
        self.samples += sum(gone.values())
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
        """Keys for the data of shards that have changed since are gone."""
        for (name,) in self.database.rows("SELECT key FROM manifests"):
            if bytes(name) not in self.vault:
                self.database.run("DELETE FROM manifests WHERE key=?", [name])

    def sub_models(self, lost: set[bytes]) -> list[SegmentKey]:
        """Drop what nobody can read and what saw something that is gone."""
        dropped = []
        for shard, round_, slice_, name in self.database.rows("SELECT shard, round, slice, key FROM sub_models"):
            key = SegmentKey(shard, round_, slice_)
            if bytes(name) in lost or (shard in self.first and key >= self.first[shard]):
                self.database.run("DELETE FROM sub_models WHERE key=?", [name])
                dropped.append(key)
        return dropped

    def exports(self, now: float) -> None:
        for export, heads in self.database.rows("SELECT id, heads FROM exports WHERE tainted IS NULL"):
            keys = [SegmentKey(*head) for head in json.loads(heads)]
            if any(key.shard in self.first and key >= self.first[key.shard] for key in keys):
                self.database.run("UPDATE exports SET tainted=? WHERE id=?", [now, export])

    def requests(self, now: float) -> int:
        """Requests whose key is gone took effect after the records were written."""
        served = 0
        for each, name in self.database.rows("SELECT id, key FROM requests WHERE effective IS NULL"):
            if bytes(name) not in self.vault:
                served += 1
                self.database.run(
                    "UPDATE requests SET effective=?, key=NULL, sealed=NULL, batch=id, samples=0, covered=?, "
                    "destroyed=? WHERE id=?",
                    [now, json.dumps(_NOTHING), now, each],
                )
        return served
