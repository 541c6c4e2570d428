"""The device over time. Most of it is in the home's tables; the service adds what they do not keep, in its own file.

Evaluations, requests and retrained samples follow from the home. How full the memory was, and how many shards voted, is
kept nowhere there: the service writes a point into `history.db` after every event that changes it, and once an hour.
A point has counts and no user.
"""

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cause.device.core import home_of
from cause.device.device import Cause
from cause.errors import HomeError
from cause.service.redact import redacted_message

FILE = "history.db"
KINDS = frozenset({"round.closed", "forget.effective", "training.finished", "evaluation.made"})
"""Events after which a point is written."""
QUIET_S = 0.5
"""Events so near to each other make one point."""
EVERY_S = 3600.0
MOST_POINTS = 4_000
"""Beyond it every second one of the older half is deleted."""
LOCKED_S = 2.0
log = logging.getLogger("cause.serve")


@dataclass(frozen=True)
class Point:
    """The device at one moment."""

    at: float
    round: int
    shards: int
    voting: int
    sub_models: int
    memory_bytes: int
    storage_bytes: int
    retrained: int
    """Samples that were trained again so far."""


class HistoryFile:
    """Points in a file of their own, so that the home's format stays as it is.

    A file that is damaged is deleted and begun anew; where none can be made, or another process has it locked, points
    are kept in memory until the service ends. Both are logged: a device must forget whatever became of the picture of
    its past.

    Parameters
    ----------
    folder
        The folder of the home.

    Raises
    ------
    HomeError
        By every method but the constructor, if the file cannot be used any more.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._lock = folder / FILE, threading.Lock()
        try:
            self._connection = self._opened()
        except (sqlite3.Error, OSError) as error:
            self._connection = self._begun_anew(error)

    def _begun_anew(self, error: sqlite3.Error | OSError) -> sqlite3.Connection:
        try:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:  # another process has locked it
                raise error
            log.warning("the history in %s cannot be used and is begun anew: %s", FILE, redacted_message(error))
            self._path.unlink(missing_ok=True)
            return self._opened()
        except (sqlite3.Error, OSError) as again:
            log.warning("the history is kept in memory until the service ends: %s", redacted_message(again))
            return _with_table(sqlite3.connect(":memory:", check_same_thread=False))

    def _opened(self) -> sqlite3.Connection:
        if not self._path.exists():
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        return _with_table(sqlite3.connect(self._path, check_same_thread=False, timeout=LOCKED_S))

    def add(self, point: Point) -> None:
        """Write a point. One of the same moment is replaced."""
        values = [
            point.at, point.round, point.shards, point.voting, point.sub_models, point.memory_bytes,
            point.storage_bytes, point.retrained,
        ]  # fmt: skip
        with self._lock, self._as_home_error(), self._connection as file:
            file.execute("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            (count,) = file.execute("SELECT count(*) FROM points").fetchone()
            if count > MOST_POINTS:
                file.execute(
                    "DELETE FROM points WHERE at IN (SELECT at FROM (SELECT at, row_number() OVER (ORDER BY at) AS "
                    "number FROM points) WHERE number % 2 = 0 AND number <= ?)",
                    [count // 2],
                )

    def points(self, since: float | None = None, until: float | None = None) -> list[Point]:
        """Return the points of a time, the oldest first."""
        with self._lock, self._as_home_error():
            rows = self._connection.execute(
                "SELECT * FROM points WHERE at >= ? AND at < ? ORDER BY at",
                [0.0 if since is None else since, 1e18 if until is None else until],
            ).fetchall()
        return [Point(*row) for row in rows]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def _as_home_error(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise HomeError(f"cannot use the history in {str(self._path)!r}: {error}") from None


def _with_table(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection whose database has the table of points; sqlite3.Error if it is no database of ours."""
    try:
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS points (at REAL PRIMARY KEY, round INTEGER NOT NULL, shards INTEGER NOT NULL, "
            "voting INTEGER NOT NULL, sub_models INTEGER NOT NULL, memory_bytes INTEGER NOT NULL, "
            "storage_bytes INTEGER NOT NULL, retrained INTEGER NOT NULL) STRICT"
        )
        connection.execute(
            "SELECT at, round, shards, voting, sub_models, memory_bytes, storage_bytes, retrained FROM points"
        ).fetchall()
        connection.commit()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


class Recorder:
    """A thread that writes points; a file that cannot be written is logged once, and nothing else is affected.

    Parameters
    ----------
    device
        The device whose points are written.
    file
        Where they are written.
    """

    def __init__(self, device: Cause, file: HistoryFile) -> None:
        self._device, self._file = device, file
        self._changed, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._failed = False

    def start(self) -> None:
        """Begin with a point of now."""
        self._changed.set()
        self._thread.start()

    def on_event(self, kind: str) -> None:
        """Take note of an event. It returns at once."""
        if kind in KINDS:
            self._changed.set()

    def now(self) -> Point:
        """Return the point of this moment."""
        device, home = self._device, home_of(self._device)
        with device.lock:
            return Point(
                at=home.clock(), round=device.ledger.round, shards=len(device.ledger.shards()),
                voting=len(device.heads()), sub_models=len(device.memory), memory_bytes=device.memory.used_bytes,
                storage_bytes=home.stored_bytes, retrained=home.queries.retrained_total(),
            )  # fmt: skip

    def stop(self) -> None:
        """End the thread after a last point."""
        self._stopped.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._changed.wait(EVERY_S)
            self._stopped.wait(QUIET_S)
            self._changed.clear()
            try:
                self._file.add(self.now())
                self._failed = False
            except Exception as error:
                if not self._failed:
                    log.warning("the history is not written: %s", redacted_message(error))
                self._failed = True
            if self._stopped.is_set():
                return
