"""SQLite on a recording disk: its own writes, syncs and names are recorded beside all others, and fail as they do."""

import errno
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from tests.recording_disk import Names, RecordingDisk, Sync, SyncFolder, Truncate, Write

_numbers = count()


class RecordingVFS(apsw.VFS):
    """The system's own files, with a record of what is done to them."""

    def __init__(self, disk: RecordingDisk) -> None:
        self.disk, self.name = disk, f"recording-{next(_numbers)}"
        super().__init__(self.name, "unix")

    def xOpen(self, name: Any, flags: list[int]) -> "RecordingVFSFile":  # noqa: N802
        return RecordingVFSFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        path = self.relative(filename)
        if path not in self.disk.now.names:
            raise apsw.IOError("no such file")
        self.step(Names(path.parent, removed=(path,)))
        super().xDelete(filename, False)
        if syncdir:
            self.step(SyncFolder(path.parent))

    def relative(self, filename: str) -> Path:
        return Path(filename).relative_to(self.disk.root)

    def step(self, operation: Any) -> None:
        try:
            self.disk.step(operation)
        except OSError as error:
            kind = apsw.FullError if error.errno == errno.ENOSPC else apsw.IOError
            raise kind(error.strerror) from None

    def reading(self, path: Path, *, opening: bool = False) -> None:
        try:
            self.disk.reading(path)
        except OSError as error:
            raise (apsw.CantOpenError if opening else apsw.IOError)(error.strerror) from None


class RecordingVFSFile(apsw.VFSFile):
    def __init__(self, vfs: RecordingVFS, name: Any, flags: list[int]) -> None:
        filename = name if isinstance(name, str) else name.filename()
        self._vfs, self._path = vfs, vfs.relative(filename)
        vfs.reading(self._path, opening=True)
        if self._path not in vfs.disk.now.names:
            vfs.step(Names(self._path.parent, added=((self._path, vfs.disk.new_inode()),)))
        # SQLite makes the name of a journal or log that it may have made durable together with its first sync
        self._unsynced_name = not flags[0] & apsw.SQLITE_OPEN_MAIN_DB
        inode = vfs.disk.now.names[self._path]
        assert inode is not None
        self._inode: int = inode
        super().__init__("unix", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._vfs.reading(self._path)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._vfs.step(Write(self._inode, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._vfs.step(Truncate(self._inode, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._vfs.step(Sync((self._inode,)))  # nothing waits for the device
        if self._unsynced_name:
            self._vfs.step(SyncFolder(self._path.parent))
            self._unsynced_name = False


class Rows(list[Any]):
    """What a statement gave, as Python's own module has it."""

    lastrowid: int = 0
    rowcount: int = -1

    def fetchone(self) -> Any:
        return self.pop(0) if self else None

    def fetchall(self) -> list[Any]:
        return list(self)


class Connection:
    """A connection with the calls and errors of Python's own module."""

    def __init__(self, path: Path, vfs: RecordingVFS) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        with _told():
            self._connection = apsw.Connection(str(path), flags, vfs.name)
            self.execute("PRAGMA locking_mode=EXCLUSIVE")  # without shared memory, which a VFS in Python has not

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        with _told():
            rows = Rows(self._connection.execute(statement, tuple(values)))
            rows.lastrowid = self._connection.last_insert_rowid()
            rows.rowcount = self._connection.changes()
            return rows

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with _told():
            self._connection.executemany(statement, [tuple(row) for row in rows])

    def create_function(self, name: str, arguments: int, function: Any, *, deterministic: bool = False) -> None:
        self._connection.create_scalar_function(name, function, arguments, deterministic=deterministic)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @property
    def total_changes(self) -> int:
        return self._connection.total_changes()

    def close(self) -> None:
        with _told():
            self._connection.close()


class _told:  # noqa: N801
    """Errors of apsw as those of Python's own module."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, apsw.Error):
            damaged = isinstance(error, apsw.CorruptError | apsw.NotADBError)
            raised = (sqlite3.DatabaseError if damaged else sqlite3.OperationalError)(str(error))
            codes = {apsw.FullError: apsw.SQLITE_FULL, apsw.CantOpenError: apsw.SQLITE_CANTOPEN}
            raised.sqlite_errorcode = getattr(error, "extendedresult", codes.get(type(error), apsw.SQLITE_IOERR))
            raise raised from None


def connect_on(disk: RecordingDisk) -> Any:
    """How a database on this disk is opened."""
    vfs = RecordingVFS(disk)

    def connect(path: Path, read_only: bool) -> Connection:
        assert not read_only
        return Connection(path.absolute(), vfs)

    return connect
