"""The ledger's tables: SQLite in WAL mode, every transaction durable, what is deleted overwritten."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cause.errors import HomeError
from cause.home.layout import FORMAT
from cause.home.migrations import MIGRATIONS
from cause.vault import Vault

Connect = Callable[[Path, bool], Any]


def connect(path: Path, read_only: bool) -> sqlite3.Connection:
    """SQLite as Python has it."""
    if not read_only:
        _keep_to_its_owner(path)
    address = f"file:{quote(str(path.absolute()))}?mode={'ro' if read_only else 'rwc'}"
    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=10)


def _keep_to_its_owner(path: Path) -> None:
    """As all files of a home are; SQLite gives those beside the ledger the mode that the ledger has."""
    with contextlib.suppress(OSError):  # what keeps it from being opened is told by who opens it
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        for end in ("-shm", "-wal", ""):  # by name: to close the file would let go of SQLite's locks
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + end).chmod(0o600)


class Database:
    """A connection, and transactions on it."""

    def __init__(
        self,
        path: Path,
        *,
        vault: Vault | None = None,
        create: bool = False,
        read_only: bool = False,
        connect: Connect = connect,
    ) -> None:
        """The vault is needed to bring a ledger of an older format up to date: what it says of contents is sealed."""
        self.path, self._read_only = path, read_only
        self._lock = threading.RLock()
        with self._failing("open"):
            self._connection = connect(path, read_only)
            self.run("PRAGMA foreign_keys=ON")
            if not read_only:
                self.run("PRAGMA secure_delete=ON")
                self.run("PRAGMA synchronous=FULL")
                self.run("PRAGMA journal_mode=WAL")
            self._migrate(create, vault)

    def _migrate(self, create: bool, vault: Vault | None) -> None:
        (found,) = self.row("PRAGMA user_version")
        if not found and not create:  # whoever went on would destroy all keys, for no table names them
            raise HomeError(f"the ledger {str(self.path)!r} is empty: put it back, or restore a backup")
        if found > FORMAT:
            raise HomeError(
                f"{str(self.path.parent)!r} has format {found}, this program knows up to {FORMAT}: use a newer one"
            )
        if found and found < FORMAT and (self._read_only or vault is None):
            raise HomeError(f"{str(self.path.parent)!r} has the older format {found}: open it for writing once")
        for number, migration in enumerate(MIGRATIONS[found:], start=found + 1):
            with self.transaction():
                self._script(migration.before)
                if found and migration.rows and vault is not None:  # a new ledger has no rows
                    migration.rows(self, vault)
                self._script(migration.after)
                self.run(f"PRAGMA user_version={number}")

    def _script(self, script: str) -> None:
        for statement in filter(str.strip, _without_comments(script).split(";")):
            self.run(statement)

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
        with self._lock, self._failing("close"):
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
