"""How the ledger's tables came to be as they are: one migration for each format, from the one before."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cause.common import positions as pos
from cause.device.store.connection import LedgerConnection
from cause.device.store.layout import FORMAT
from cause.device.store.seals import seal_classes, seal_digest, seal_identity, upload_key
from cause.device.vault import Vault
from cause.engine.samples import SegmentKey


@dataclass(frozen=True)
class Migration:
    """What leads to a format: statements, what only a program can do to the rows, and statements again."""

    before: str
    rows: Callable[[LedgerConnection, Vault], None] | None = None
    after: str = ""


_FIRST = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) STRICT;
CREATE TABLE uploads (
    id INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER NOT NULL, received REAL NOT NULL,
    pseudonym INTEGER NOT NULL,
    sealed_user BLOB NOT NULL  -- under the key of its first block
) STRICT;
CREATE TABLE blocks (
    key BLOB PRIMARY KEY, upload INTEGER NOT NULL REFERENCES uploads, part INTEGER NOT NULL,
    bytes INTEGER NOT NULL, UNIQUE (upload, part)
) STRICT;
CREATE TABLE segments (
    shard INTEGER, round INTEGER, slice INTEGER, trained INTEGER NOT NULL, PRIMARY KEY (shard, round, slice)
) STRICT;
CREATE TABLE pieces (
    upload INTEGER NOT NULL REFERENCES uploads, shard INTEGER, round INTEGER, slice INTEGER,
    positions BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (upload, shard, slice)
) STRICT;
CREATE TABLE sub_models (
    shard INTEGER, round INTEGER, slice INTEGER, key BLOB NOT NULL UNIQUE, identity BLOB NOT NULL,
    size_bytes INTEGER NOT NULL, environment TEXT NOT NULL, slot INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (shard, round, slice)
) STRICT;
CREATE TABLE requests (
    id TEXT PRIMARY KEY, received REAL NOT NULL, deadline REAL NOT NULL, effective REAL, repaired REAL,
    key BLOB, sealed BLOB,  -- what was asked, until it is in effect
    batch TEXT, samples INTEGER, covered TEXT  -- JSON: what the request did, without personal data
) STRICT;
CREATE TABLE behind (shard INTEGER PRIMARY KEY, since REAL NOT NULL) STRICT;
CREATE TABLE exports (id TEXT PRIMARY KEY, made REAL NOT NULL, form TEXT NOT NULL, heads TEXT NOT NULL,
    tainted REAL) STRICT;
CREATE TABLE history (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER NOT NULL, kind TEXT NOT NULL, pseudonym INTEGER NOT NULL,
    of_round INTEGER, samples INTEGER NOT NULL, shard INTEGER NOT NULL, labels TEXT
) STRICT;
CREATE TABLE manifests (request TEXT, shard INTEGER, key BLOB NOT NULL, PRIMARY KEY (request, shard)) STRICT;
CREATE TABLE leaves (
    number INTEGER PRIMARY KEY, request TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (request, kind)
) STRICT;
CREATE TABLE nodes (level INTEGER, number INTEGER, hash BLOB NOT NULL, PRIMARY KEY (level, number)) STRICT;
"""

_SEALED = """
ALTER TABLE pieces RENAME COLUMN digest TO sealed_digest;  -- under the keys of all blocks of the upload
ALTER TABLE sub_models RENAME COLUMN identity TO sealed_identity;  -- under the sub-model's key
ALTER TABLE history ADD COLUMN sealed_classes BLOB;  -- as the digest; of an upload that lost samples NULL
"""

_STAGED = """
CREATE TABLE staged (
    key BLOB PRIMARY KEY, upload TEXT NOT NULL, part INTEGER NOT NULL, samples INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sealed_user BLOB NOT NULL,  -- under the key of this very block
    UNIQUE (upload, part)
) STRICT;
CREATE TABLE calls (  -- what a call with an id of its own led to, for whoever repeats it
    id TEXT PRIMARY KEY, at REAL NOT NULL, samples INTEGER NOT NULL, round INTEGER
) STRICT;
CREATE TABLE retrained (round INTEGER PRIMARY KEY, samples INTEGER NOT NULL) STRICT;
CREATE TABLE evaluations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, round INTEGER NOT NULL, told TEXT NOT NULL
) STRICT;
"""

_ARRIVED = """
ALTER TABLE staged ADD COLUMN arrived REAL NOT NULL DEFAULT 0;  -- calls are not remembered for ever
UPDATE staged SET arrived = coalesce((SELECT at FROM calls WHERE id=upload), strftime('%s', 'now') - 7 * 86400);
ALTER TABLE uploads ADD COLUMN arrived REAL NOT NULL DEFAULT 0;  -- of its samples the first; received: as a round
UPDATE uploads SET arrived = received;
"""


_LOOKED_UP = """
CREATE INDEX pieces_by_segment ON pieces (shard, round, slice);
CREATE INDEX uploads_by_user ON uploads (pseudonym, round);
CREATE INDEX history_by_user ON history (pseudonym, round);
ALTER TABLE uploads ADD COLUMN layout INTEGER NOT NULL DEFAULT 0;  -- see cause.device.store.upgrade
ALTER TABLE segments ADD COLUMN samples INTEGER NOT NULL DEFAULT 0;
ALTER TABLE segments ADD COLUMN key BLOB;
ALTER TABLE segments ADD COLUMN sealed_digests BLOB;  -- of its pieces, under that key
CREATE TABLE directory (
    chunk INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE,
    sealed BLOB NOT NULL  -- names of users by pseudonym, under that key
) STRICT;
ALTER TABLE requests ADD COLUMN destroyed REAL;  -- when the keys were; effective: when the tables changed
ALTER TABLE requests ADD COLUMN nonce TEXT;  -- of the client, as a digest
ALTER TABLE requests ADD COLUMN signed INTEGER NOT NULL DEFAULT 0;  -- 1: effect, 2: repair, too
UPDATE requests SET destroyed=effective;
UPDATE requests SET signed=1 WHERE EXISTS (SELECT 1 FROM leaves WHERE request=id AND kind='effect');
UPDATE requests SET signed=2 WHERE EXISTS (SELECT 1 FROM leaves WHERE request=id AND kind='repair');
CREATE INDEX uploads_to_upgrade ON uploads (id) WHERE layout=0;
CREATE INDEX requests_unsigned ON requests (signed) WHERE signed < 2;
"""

_SET_ASIDE = """
ALTER TABLE pieces ADD COLUMN quarantined REAL;  -- since when; see cause.engine.quarantine
ALTER TABLE pieces ADD COLUMN verdict TEXT;  -- the type of the error that training on it alone ends with
CREATE INDEX pieces_quarantined ON pieces (shard) WHERE quarantined IS NOT NULL;
ALTER TABLE behind ADD COLUMN problem TEXT;  -- the type of the error that its last training ended with
"""

_PLACED = """
CREATE TABLE environments (  -- see cause.engine.environments
    shard INTEGER PRIMARY KEY, environment TEXT NOT NULL
) STRICT;
"""


def _seal(database: LedgerConnection, vault: Vault) -> None:
    """Seal values that describe contents. Without its key a value is deleted: it could not be checked any more."""
    blocks: dict[int, list[bytes]] = {}
    for upload, name in database.rows("SELECT upload, key FROM blocks ORDER BY upload, part"):
        blocks.setdefault(upload, []).append(bytes(name))
    keys = {
        upload: upload_key(vault, names) for upload, names in blocks.items() if all(name in vault for name in names)
    }
    for row, upload, *piece, digest in database.rows(
        "SELECT rowid, upload, shard, round, slice, sealed_digest FROM pieces"
    ):
        sealed = seal_digest(keys[upload], SegmentKey(*piece), bytes(digest)) if upload in keys else b""
        database.run("UPDATE pieces SET sealed_digest=? WHERE rowid=?", [sealed, row])
    for name, identity in database.rows("SELECT key, sealed_identity FROM sub_models"):
        sealed = seal_identity(vault, bytes(name), bytes(identity)) if bytes(name) in vault else b""
        database.run("UPDATE sub_models SET sealed_identity=? WHERE key=?", [sealed, name])
    for row, upload, labels in database.rows(
        "SELECT seq, id, labels FROM history JOIN uploads USING (round, pseudonym) WHERE labels IS NOT NULL"
    ):
        if upload in keys:
            counts = {int(label): count for label, count in json.loads(labels).items()}
            labels_ = np.repeat(np.array(list(counts), dtype=np.int64), list(counts.values()))
            database.run("UPDATE history SET sealed_classes=? WHERE seq=?", [seal_classes(keys[upload], labels_), row])


def _count(database: LedgerConnection, vault: Vault) -> None:
    """Store how many samples each segment has, and which uploads are whole. `upgrade` does the rest."""
    counts: dict[SegmentKey, int] = {}
    retained: dict[int, int] = {}
    for upload, *key, held in database.rows("SELECT upload, shard, round, slice, positions FROM pieces"):
        segment, samples = SegmentKey(*key), len(pos.from_runs(bytes(held)))
        counts[segment] = counts.get(segment, 0) + samples
        retained[upload] = retained.get(upload, 0) + samples
    added = database.rows(
        "SELECT id, sum(samples) FROM uploads JOIN history USING (pseudonym, round) WHERE kind='add' GROUP BY id"
    )
    whole = [[upload] for upload, samples in added if samples == retained.get(upload)]
    database.many("UPDATE uploads SET layout=2 WHERE id=?", whole)
    database.many(
        "UPDATE segments SET samples=? WHERE (shard, round, slice)=(?, ?, ?)",
        [[count, *key] for key, count in counts.items()],
    )


MIGRATIONS = (
    Migration(_FIRST),
    Migration(_SEALED, _seal, "ALTER TABLE history DROP COLUMN labels"),
    Migration(_STAGED),
    Migration(_ARRIVED),
    Migration(_LOOKED_UP, _count, "ALTER TABLE pieces DROP COLUMN sealed_digest"),
    Migration(_SET_ASIDE),
    Migration(_PLACED),
)
assert len(MIGRATIONS) == FORMAT
