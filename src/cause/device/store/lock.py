"""The lock of a home: one writer at a time, and only in the process that opened the home."""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from cause.errors import HomeError


class Lock:
    """An exclusive file lock on a home. The kernel releases it when the process ends.

    Raises
    ------
    HomeError
        If another process holds it (its id is named), or the file cannot be locked: it is a link or no plain file, the
        disk is read-only, the file system has no locks.
    """

    def __init__(self, path: Path) -> None:
        self._process, self._path = os.getpid(), path
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            if error.errno == errno.EROFS:
                raise HomeError(
                    f"{str(path.parent)!r} is on a read-only file system: use a command that only reads, or mount it "
                    "for writing"
                ) from None
            link = error.errno == errno.ELOOP and path.is_symlink()
            why = "it is a symbolic link: remove it" if link else error.strerror
            raise HomeError(f"cannot open the lock {str(path)!r}: {why}") from None
        try:
            self._take(path)
        except BaseException:
            os.close(self._file)
            self._file = -1
            raise

    def _take(self, path: Path) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise HomeError(f"cannot open the lock {str(path)!r}: it is not a plain file: remove it")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).split(b"\n")[0].decode(errors="replace") or "unknown"
            raise HomeError(
                f"{str(path.parent)!r} is in use by process {holder}: stop it, or use a command that only reads"
            ) from None
        except OSError as error:
            raise HomeError(
                f"cannot lock {str(path)!r}: {error.strerror} ({errno.errorcode.get(error.errno or 0, '?')}): keep "
                "the home on a file system that can lock files"
            ) from None
        process = b"%d\n" % os.getpid()
        with contextlib.suppress(OSError):  # only to name the holder to others: a full disk must not keep a home shut
            os.pwrite(self._file, process, 0)
            os.ftruncate(self._file, len(process))

    def check(self) -> None:
        """Refuse to go on if the home's path leads elsewhere now: it was moved, removed, or another one took its place.

        Raises
        ------
        HomeError
            If the file of the lock is not the one that this process holds.
        """
        try:
            there, held = self._path.stat(), os.fstat(self._file)
            moved = (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino)
        except OSError:
            moved = True
        if moved:
            raise HomeError(
                f"{str(self._path.parent)!r} was moved, removed or replaced while it was open: put it back, or close "
                "it and open it where it is now"
            )

    def close(self) -> None:
        """Release the lock; a process that was forked from its holder releases nothing."""
        if self._file < 0:
            return
        if os.getpid() == self._process:
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)  # a forked process may have the file open still
        os.close(self._file)
        self._file = -1
