"""The ledger's tables: SQLite in WAL mode, every transaction durable, what is deleted overwritten."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cause.errors import HomeError
from cause.home.layout import FORMAT

Connect = Callable[[Path, bool], Any]

# One entry for each format: what leads to it from the one before.
MIGRATIONS = (
    """
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
    """,
    """
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
    """,
)
assert len(MIGRATIONS) == FORMAT


def connect(path: Path, read_only: bool) -> sqlite3.Connection:
    """SQLite as Python has it."""
    address = f"file:{quote(str(path.absolute()))}?mode={'ro' if read_only else 'rwc'}"
    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=10)


class Database:
    """A connection, and transactions on it."""

    def __init__(
        self, path: Path, *, create: bool = False, read_only: bool = False, connect: Connect = connect
    ) -> None:
        self.path, self._read_only = path, read_only
        self._lock = threading.RLock()
        with self._failing("open"):
            self._connection = connect(path, read_only)
            self.run("PRAGMA foreign_keys=ON")
            if not read_only:
                self.run("PRAGMA secure_delete=ON")
                self.run("PRAGMA synchronous=FULL")
                self.run("PRAGMA journal_mode=WAL")
            self._migrate(create)

    def _migrate(self, create: bool) -> None:
        (found,) = self.row("PRAGMA user_version")
        if not found and not create:  # whoever went on would destroy all keys, for no table names them
            raise HomeError(f"the ledger {str(self.path)!r} is empty: put it back, or restore a backup")
        if found > FORMAT:
            raise HomeError(
                f"{str(self.path.parent)!r} has format {found}, this program knows up to {FORMAT}: use a newer one"
            )
        if found < FORMAT and self._read_only:
            raise HomeError(f"{str(self.path.parent)!r} has the older format {found}: open it for writing once")
        for number, script in enumerate(MIGRATIONS[found:], start=found + 1):
            with self.transaction():
                for statement in filter(str.strip, _without_comments(script).split(";")):
                    self.run(statement)
                self.run(f"PRAGMA user_version={number}")

    def run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        with self._lock, self._failing("use"):
            return self._connection.execute(statement, values)

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._lock, self._failing("use"):
            self._connection.executemany(statement, rows)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock, self._failing("read"):
            return list(self._connection.execute(statement, values))

    def row(self, statement: str, values: Sequence[Any] = ()) -> Any:
        found = self.rows(statement, values)
        return found[0] if found else None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing, durably."""
        with self._lock:
            self.run("BEGIN IMMEDIATE")
            try:
                yield
                self.run("COMMIT")
            except BaseException:
                with contextlib.suppress(HomeError):
                    self.run("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Several reads of one moment."""
        with self._lock:
            self.run("BEGIN")
            try:
                yield
            finally:
                self.run("ROLLBACK")

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the table `meta`."""
        found = self.row("SELECT value FROM meta WHERE name=?", [name])
        return default if found is None else found[0]

    def set(self, name: str, value: Any) -> None:
        self.run("INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value=excluded.value", [name, value])

    def scrub(self) -> None:
        """Leave nothing of what was deleted in the write-ahead log."""
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def check(self) -> list[str]:
        """What SQLite finds wrong."""
        return [line for (line,) in self.rows("PRAGMA integrity_check") if line != "ok"]

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            hint = "; `cause doctor --home` tells more" if isinstance(error, sqlite3.DatabaseError) else ""
            raise HomeError(f"cannot {what} the ledger {str(self.path)!r}: {error}{hint}") from None


def _without_comments(script: str) -> str:
    return "\n".join(line.partition("--")[0] for line in script.splitlines())
