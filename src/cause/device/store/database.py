"""The ledger's tables: SQLite in WAL mode, every transaction durable, what is deleted overwritten."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cause.device.advice import doctor_advice
from cause.device.disk import Disk
from cause.device.error_notes import COMMIT_FAILED, add_to_errors
from cause.device.store.checksum import CHECKSUM, RowChecksum, rows_key
from cause.device.store.forked import never_collect, refuse
from cause.device.store.layout import DEVICE_KEY, FORMAT
from cause.device.store.migrations import MIGRATIONS
from cause.device.vault import Vault
from cause.errors import FormatError, HomeError

Connect = Callable[[Path, bool], Any]
PAGE_BYTES = 1_024
"""The size of a page in new ledgers: a transaction writes every page that it changes, mostly for a few bytes of it."""
CHANGE = "change"
"""The row of `meta` with the number of the ledger's last change."""


def connect(path: Path, read_only: bool) -> sqlite3.Connection:
    """Open a ledger with Python's SQLite.

    Raises
    ------
    HomeError
        If the path is a link or a folder, or the ledger cannot be read without a writer.
    sqlite3.Error
        If SQLite cannot open it.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise HomeError(f"{str(path)!r} is a link or not an ordinary file: a home's ledger is neither")
    if not read_only:
        _keep_to_its_owner(path)
    address = f"file:{quote(str(path.absolute()))}?mode={_reading(path) if read_only else 'rwc'}"
    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=10)


def _reading(path: Path) -> str:
    """Return the mode for reading: SQLite writes an index beside the ledger, which it cannot do on a read-only disk."""
    log, index = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    if index.exists() or os.access(path.parent, os.W_OK):
        return "ro"
    if log.exists() and log.stat().st_size:
        raise HomeError(
            f"{str(path.parent)!r} has changes in {log.name!r} that only a writer can take in: mount it for writing "
            "and open it once"
        )
    return "ro&immutable=1"  # no process writes: a writer would have made the index


def _keep_to_its_owner(path: Path) -> None:
    """Make the ledger readable for its owner alone; SQLite gives its other files the same mode."""
    with contextlib.suppress(OSError):  # opening it reports the error
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        for end in ("-shm", "-wal", ""):  # by name: closing a file would release SQLite's locks on it
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + end).chmod(0o600)


_PASSING = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY,
}  # fmt: skip


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error of SQLite means a damaged ledger; errors of the disk or the system do not."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _PASSING


class Database:
    """A connection to a ledger, with durable transactions.

    Parameters
    ----------
    path
        The ledger's file.
    vault
        The keys: an older format is converted with them, and they key the checksum of the rows.
    create
        Make a new ledger.
    read_only
        Open it beside the process that writes it.
    connect, disk
        How SQLite and files are reached; tests replace them.
    check
        Called before anything of the ledger is changed; it may raise to refuse the ledger.

    Raises
    ------
    HomeError
        If the ledger cannot be opened, is empty, or has a format that cannot be used.
    """

    def __init__(
        self,
        path: Path,
        *,
        vault: Vault | None = None,
        create: bool = False,
        read_only: bool = False,
        connect: Connect = connect,
        disk: Disk | None = None,
        check: "Callable[[Database], None] | None" = None,
    ) -> None:
        self.path, self._read_only = path, read_only
        self._disk = disk or Disk()
        self._lock, self._process = threading.RLock(), os.getpid()
        self.durable = read_only
        """Whether all that was read at the opening would survive a power loss."""
        self.before_transaction: list[Callable[[], None]] = []
        """Functions that are called before each transaction; one that raises keeps it from being begun."""
        self.after_commit: list[Callable[[], None]] = []
        """Functions that are called after each transaction that changed something. They must not raise."""
        self._sum: RowChecksum | None = None
        self.unsettled = False
        """Whether the log may hold a transaction whose commit failed (see `settle`)."""
        if not read_only:
            with contextlib.suppress(HomeError):  # before anything is destroyed it is tried again
                self.harden()
        with self._failing("open"):
            self._connection = connect(path, read_only)
            self.run("PRAGMA foreign_keys=ON")
            if not read_only:
                self.run(f"PRAGMA page_size={PAGE_BYTES}")  # of a new ledger; others keep theirs
                self.run("PRAGMA secure_delete=ON")
                self.run("PRAGMA synchronous=FULL")
                self.run("PRAGMA journal_mode=WAL")
            self._migrate(create, vault, check)
            if vault is not None and not read_only:
                self._sum = RowChecksum(self, rows_key(vault, DEVICE_KEY))
                self.run("PRAGMA temp_store=MEMORY")
                self._sum.install(self._connection.create_function)

    def _migrate(self, create: bool, vault: Vault | None, check: "Callable[[Database], None] | None") -> None:
        (version,) = self.row("PRAGMA user_version")
        if not version and not create:  # going on would destroy all keys, because no table names them
            raise HomeError(f"the ledger {str(self.path)!r} is empty: put it back, or restore a backup")
        if version > FORMAT:
            raise FormatError(
                f"{str(self.path.parent)!r} has format {version}, this program knows up to {FORMAT}: use a newer one"
            )
        if check is not None:
            check(self)
        if version and version < FORMAT and (self._read_only or vault is None):
            raise FormatError(
                f"{str(self.path.parent)!r} has the older format {version}: open it for writing once "
                "(`cause repair` does)"
            )
        for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
            with self.transaction(counts=True):
                self._script(migration.before)
                if version and migration.rows and vault is not None:  # a new ledger has no rows
                    migration.rows(self, vault)
                self._script(migration.after)
                self.run(f"PRAGMA user_version={number}")
                self.unset(CHECKSUM)  # made anew when all of them are done

    def _script(self, script: str) -> None:
        for statement in filter(str.strip, _without_comments(script).split(";")):
            self.run(statement)

    def run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement and return its cursor; HomeError if it fails."""
        with self._lock, self._failing("use"):
            return self._connection.execute(statement, values)

    def invalidate(self) -> None:
        """Let the transaction under way compute the checksum from all rows."""
        if self._sum is not None:
            self._sum.invalidate()

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of many rows of values; HomeError if it fails."""
        with self._lock, self._failing("use"):
            self._connection.executemany(statement, rows)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query; HomeError if it fails."""
        with self._lock, self._failing("read"):
            return list(self._connection.execute(statement, values))

    def row(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Return the first row of a query; None if there is none, HomeError if it fails."""
        rows = self.rows(statement, values)
        return rows[0] if rows else None

    @contextlib.contextmanager
    def transaction(self, *, counts: bool = False) -> Iterator[None]:
        """Open a transaction: durable when the block ends, undone if it raises.

        It gets the next number of change if it changed a row, or if `counts` is set. If the commit fails, `settle` is
        tried at once; the error says so if that failed, too.
        """
        with self._lock:
            for call in self.before_transaction:
                call()
            self.run("BEGIN IMMEDIATE")
            try:
                (before,) = self.row("SELECT total_changes()")
                if self._sum is not None:
                    self._sum.begin()
                yield
                (after,) = self.row("SELECT total_changes()")
                if after != before or counts:
                    self.set(CHANGE, self.change + 1)
                    if self._sum is not None:
                        self._sum.store()
                self._commit()
            except BaseException:
                with contextlib.suppress(HomeError):
                    self.run("ROLLBACK")
                raise
            finally:
                if self._sum is not None:
                    self._sum.end()
            if after != before or counts:
                for call in self.after_commit:
                    call()

    def _commit(self) -> None:
        try:
            self.run("COMMIT")
        except HomeError:
            again, self.unsettled = self.unsettled, True
            with contextlib.suppress(HomeError):
                self.run("ROLLBACK")
            if not again:
                with contextlib.suppress(HomeError):
                    self.settle()
            with add_to_errors(COMMIT_FAILED if self.unsettled else ""):
                raise
        self.unsettled = False

    def settle(self) -> None:
        """Make sure that a transaction whose commit failed stays undone.

        All of it may be in the write-ahead log, and only its sync have failed: it would be there after a power loss,
        with samples of which this process knows nothing, and which no request could name. The next transaction takes
        its place in the log; here that is an empty one. Without such a transaction nothing is done.

        Raises
        ------
        HomeError
            If the disk refuses.
        """
        with self._lock:
            if self.unsettled:
                with self.transaction(counts=True):
                    pass

    def harden(self) -> None:
        """Make the contents that the write-ahead log had at the opening durable, by writing the same bytes again.

        A process that was killed, or whose disk failed, may have left them in the page cache alone; and a sync without
        a write would report success even if an earlier one had failed and dropped them.

        Raises
        ------
        HomeError
            If the disk refuses. Keys and files that no table names must not be destroyed then.
        """
        if self.durable:
            return
        log = self.path.with_name(self.path.name + "-wal")
        try:
            data = self._disk.read(log) if self._disk.exists(log) else b""
            if data:
                file = self._disk.open(log)
                try:
                    file.write_at(0, data)
                    self._disk.sync(file)
                finally:
                    file.close()
                self._disk.sync_folder(log.parent)
        except OSError as error:
            raise HomeError(f"cannot make {str(log)!r} durable: {error.strerror}") from None
        self.durable = True

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Let all reads of the block see the same moment."""
        with self._lock:
            self.run("BEGIN")
            try:
                yield
            finally:
                self.run("ROLLBACK")

    @property
    def change(self) -> int:
        """The number of the ledger's last change; 0 for a ledger of an early version, which did not count them."""
        if not self.row("SELECT 1 FROM sqlite_schema WHERE name='meta'"):
            return 0
        change = self.get(CHANGE, 0)
        if not isinstance(change, int) or change < 0:
            raise HomeError(f"the ledger {str(self.path)!r} is damaged: its last change is {change!r}")
        return change

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value of the table `meta`."""
        row = self.row("SELECT value FROM meta WHERE name=?", [name])
        return default if row is None else row[0]

    def set(self, name: str, value: Any) -> None:
        """Set a value of the table `meta`."""
        self.run("INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value=excluded.value", [name, value])

    def unset(self, name: str) -> None:
        """Delete a value of the table `meta`, if it is there."""
        self.run("DELETE FROM meta WHERE name=?", [name])

    def scrub(self) -> None:
        """Empty the write-ahead log, so that no deleted row stays there."""
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def check(self) -> list[str]:
        """Return the problems that SQLite's integrity check reports."""
        return [line for (line,) in self.rows("PRAGMA integrity_check") if line != "ok"]

    def disable_in_fork(self) -> None:
        """Make the connection unusable in a forked process, and keep it from ever being closed there."""
        self._lock = threading.RLock()  # another thread may have held it
        never_collect(self._connection)

    def close(self) -> None:
        """Close the connection; in a forked process this does nothing."""
        if os.getpid() != self._process:
            return
        with self._lock, self._failing("close"):
            self._connection.close()

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        if os.getpid() != self._process:
            refuse(self.path.parent)
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            self.invalidate()  # part of a statement may have been counted
            advice = doctor_advice(self.path.parent) if isinstance(error, sqlite3.DatabaseError) else ""
            reason = " ".join(str(error).split())[:200]  # SQLite quotes a damaged schema, line by line
            raise HomeError(f"cannot {what} the ledger {str(self.path)!r}: {reason}", advice) from None


def _without_comments(script: str) -> str:
    return "\n".join(line.partition("--")[0] for line in script.splitlines())
