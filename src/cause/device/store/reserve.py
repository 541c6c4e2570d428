"""Disk space that is reserved for forgetting: a home on a full disk must still open and forget.

Forgetting needs space before it frees any: for SQLite's write-ahead log and its index, for rewritten blocks, and for
new keys. A file in the home holds that space, with blocks that are really allocated. It is extended to its full size
before samples are accepted, and released when space is short.
"""

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cause.common.units import format_bytes
from cause.device.disk import Disk
from cause.errors import BudgetError, HomeError

if TYPE_CHECKING:
    from cause.device.store.database import Database
    from cause.device.store.directory import Directory
    from cause.device.store.tables import Tables

STEP_BYTES = 64 * 1024
BASE_BYTES = 2 * STEP_BYTES
"""For the index of the write-ahead log (32 KiB), a few pages of each table, and a chunk of keys."""
MOST_LEDGER_BYTES = 8 << 20
"""A transaction writes each page of the ledger at most once; a forget touches no more pages than this."""
MOST_UPLOAD_BYTES = 64 << 20
"""The most that is kept for an upload's blocks that are written anew."""
REQUEST_BYTES = 8 << 10
"""What a request adds to the ledger for good, with its receipt in the log; measured: 4 to 6 KiB."""
MOST_REQUESTS_BYTES = 16 << 20
"""The most that is kept for requests."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """The reserved disk space of a home.

    Parameters
    ----------
    path
        The file that holds it.
    disk
        How files are reached.
    directory
        The users who hold samples: each of them may ask for an erasure.
    storage_bytes
        The most bytes that samples may take; None is without limit.
    """

    def __init__(self, path: Path, disk: Disk, directory: "Directory", storage_bytes: int | None = None) -> None:
        self.path, self._disk, self._directory, self.storage_bytes = path, disk, directory, storage_bytes
        self._upload = self._digests = self._ledger = 0
        self._database: Database | None = None

    def learn_sizes(self, database: "Database") -> None:
        """Read the sizes of what a forget may have to write anew, in the opened database."""
        self._database = database
        (self._upload,) = database.row(
            "SELECT coalesce(max(size), 0) FROM (SELECT sum(bytes) AS size FROM blocks GROUP BY upload)"
        )
        if database.row("SELECT 1 FROM pragma_table_info('segments') WHERE name='sealed_digests'"):
            (self._digests,) = database.row("SELECT coalesce(max(length(sealed_digests)), 0) FROM segments")
        self._measure(database)

    def _measure(self, database: "Database") -> None:
        (pages,), (size,) = database.row("PRAGMA page_count"), database.row("PRAGMA page_size")
        self._ledger = pages * size

    @property
    def target(self) -> int:
        """Return how many bytes forgetting may need: one forget at a time, and a request of each user."""
        return self._target()

    def _target(self, new_users: int = 0) -> int:
        needed = BASE_BYTES + min(self._ledger, MOST_LEDGER_BYTES) + min(self._upload, MOST_UPLOAD_BYTES)
        needed += min((len(self._directory) + new_users) * REQUEST_BYTES, MOST_REQUESTS_BYTES)
        return -(-(needed + 2 * self._digests) // STEP_BYTES) * STEP_BYTES

    def size(self) -> int:
        """Return how many bytes are reserved now."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _free_bytes(self) -> int:
        try:
            return self._disk.free_bytes(self.path.parent)
        except OSError as error:
            raise HomeError(f"cannot look at {str(self.path.parent)!r}: {error.strerror}: is it still there?") from None

    def require(self, tables: "Tables", more: int, largest: int, users: Iterable[str]) -> None:
        """Extend the reserve to its full size, also for new uploads and their users; call it before accepting them.

        Parameters
        ----------
        tables
            The tables, which say how much the samples take already.
        more
            How many bytes all new samples take.
        largest
            How many bytes the largest upload takes.
        users
            Their users.

        Raises
        ------
        BudgetError
            If `storage` is used up, or there is no room for the samples beside the reserve.
        """
        limit, database = self.storage_bytes, tables.database
        if limit is not None and (stored := tables.samples.stored_bytes()) + more > limit:
            raise BudgetError(
                f"the samples need {format_bytes(more)}, but of {format_bytes(limit)} for samples "
                f"{format_bytes(stored)} are used: forget some, or raise `storage`"
            )
        self._upload = max(self._upload, largest)
        self._measure(database)
        target = self._target(sum(self._directory.pseudonym(user) is None for user in users))
        for scrubbed in (False, True):
            if self._grow(target) >= target and self._free_bytes() > more:
                return
            if not scrubbed:
                database.scrub()  # the write-ahead log may hold room that is not needed
        raise BudgetError(
            f"the disk of {str(self.path.parent)!r} has no room for {format_bytes(more)} of samples beside the "
            f"{format_bytes(target)} that forgetting needs: forget some, or make room"
        )

    def refill(self, leave: int = STEP_BYTES) -> None:
        """Reserve as much as there is space for, up to the target; call it after a forget or an opening.

        Parameters
        ----------
        leave
            Bytes that stay free, for what the device writes meanwhile.
        """
        if not self._ledger:
            return  # the home was not opened, so its sizes are unknown
        size, free = self.size(), self._free_bytes()
        reachable = min(self.target, size + free - leave)
        if reachable > size:
            self._grow(reachable)

    def make_room(self) -> None:
        """Release the reserve and empty the write-ahead log if the rest of the disk may not suffice.

        Call it before a forget, and before each sub-model of a repair is stored.
        """
        database = self._database
        if database is not None:
            self._measure(database)  # every accepted request has made the ledger larger
        if self._free_bytes() < max(self.target, STEP_BYTES):
            self.release()
            if database is not None:
                with suppress(HomeError):  # the log is not needed, but may stay
                    database.scrub()

    def release(self) -> None:
        """Release the reserved space."""
        try:
            if self._disk.exists(self.path):
                self._disk.unlink(self.path)
                self._disk.sync_folder(self.path.parent)
        except OSError as error:
            raise HomeError(f"cannot remove {str(self.path)!r}: {error.strerror}") from None

    def _grow(self, size: int) -> int:
        """Let the file have so many bytes, or as many as there is room for; how many it has."""
        have = self.size()
        if have >= size:
            return have
        try:
            new = not self._disk.exists(self.path)
            file = self._disk.create(self.path) if new else self._disk.open(self.path)
            try:
                while have < size:
                    # not zeros: a file system that compresses would allocate nothing
                    file.write_at(have, os.urandom(min(STEP_BYTES, size - have)))
                    have = file.size()
                self._disk.sync(file)
            finally:
                file.close()
            if new:
                self._disk.sync_folder(self.path.parent)
        except OSError as error:
            if error.errno not in _FULL:
                raise HomeError(f"cannot write {str(self.path)!r}: {error.strerror}") from None
        return self.size()
