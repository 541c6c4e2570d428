"""The calls to the file system that durable storage needs.

All of them go through here, so that a test can put a layer in their place that records what was written and when it
was made durable, and then replay every state a power loss could have left. Nothing is durable before it is synced: a
file's bytes by `Disk.sync`, its name by `Disk.sync_folder`.
"""

import contextlib
import errno
import io
import os
import stat
import threading
import time
from pathlib import Path

try:
    from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]  # macOS only
except ImportError:
    F_FULLFSYNC = None  # type: ignore[assignment,unused-ignore]


ATTEMPTS = 4
"""How often a file is read before an error counts."""
FIRST_PAUSE_S = 0.0025
_SAFELY = getattr(os, "O_NONBLOCK", 0)
"""A pipe in a file's place must not block the process until something is written into it."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""What a home writes to is its own: a link in a file's place is refused."""
pause = time.sleep
"""The function that waits between two attempts; tests replace it."""


def open_to_read(path: Path) -> io.FileIO:
    """Open an ordinary file for reading, unbuffered.

    Raises
    ------
    OSError
        If it cannot be read, or is a pipe, a folder or a device.
    """
    file = io.FileIO(os.open(path, os.O_RDONLY | _SAFELY), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
    return file


class OpenFile:
    """A file open for reading and writing."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self.descriptor).st_size

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of the data, past the end too. Not durable before `Disk.sync`."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self.descriptor, rest, offset)
            rest, offset = rest[written:], offset + written

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


class Disk:
    """The real file system. New files and folders are their owner's alone."""

    def read(self, path: Path) -> bytes:
        """Return all bytes of a file.

        Raises
        ------
        FileNotFoundError
            At once, if there is no such file.
        OSError
            For any other reason, after a few attempts: too few file descriptors or an error of a bus may pass.
        """
        for attempt in range(1, ATTEMPTS):
            try:
                return self.read_once(path)
            except FileNotFoundError:
                raise
            except OSError:
                pause(FIRST_PAUSE_S * 4**attempt)
        return self.read_once(path)

    def read_once(self, path: Path) -> bytes:
        """Return all bytes of a file, in one attempt; OSError if it cannot be read."""
        with open_to_read(path) as file:
            return file.readall()

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of a file from `offset` on; fewer at its end."""
        with open_to_read(path) as file:
            file.seek(offset)
            parts = []
            while size > 0 and (part := file.read(size)):
                parts.append(part)
                size -= len(part)
        return b"".join(parts)

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return path.stat().st_size

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or folder of this name."""
        return path.exists()

    def free_bytes(self, folder: Path) -> int:
        """Return how many bytes are free on the file system of this folder."""
        status = os.statvfs(folder)
        return status.f_bavail * status.f_frsize

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(os.listdir(folder))  # noqa: PTH208 a Path for each of 100,000 entries takes a second

    def make_folder(self, folder: Path) -> None:
        """Make a folder that only its owner can open."""
        folder.mkdir(mode=0o700)

    def remove_folder(self, folder: Path) -> None:
        """Remove an empty folder."""
        folder.rmdir()

    def create(self, path: Path) -> OpenFile:
        """Make a new, empty file; FileExistsError if there is one."""
        return OpenFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def open(self, path: Path) -> OpenFile:
        """Open an existing file for reading and writing; OSError if it is a link or no ordinary file."""
        return OpenFile(path, os.open(path, os.O_RDWR | _SAFELY | _NO_LINK))

    def sync(self, *files: OpenFile) -> None:
        """Make the bytes of these files durable, all at the same time: a device flushes once for several of them."""
        failures: list[OSError] = []

        def sync_one(file: OpenFile) -> None:
            try:
                _sync(file.descriptor)
            except OSError as error:
                failures.append(error)

        others = []
        for file in files[1:]:
            thread = threading.Thread(target=sync_one, args=(file,))
            try:
                thread.start()
                others.append(thread)
            except RuntimeError:  # no thread can be started (a limit of tasks): one after the other
                sync_one(file)
        for file in files[:1]:
            sync_one(file)
        for thread in others:
            thread.join()
        if failures:
            raise failures[0]

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file; one that has the new name is replaced."""
        old.replace(new)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        """Make files that were made, renamed or removed in this folder durable."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write_whole(self, path: Path, data: bytes) -> None:
        """Replace a file, durably and atomically. The bytes of the old file are not overwritten on the disk."""
        partial = path.with_name(path.name + ".part")
        with contextlib.suppress(FileNotFoundError):
            self.unlink(partial)
        try:
            file = self.create(partial)
            try:
                file.write_at(0, data)
                self.sync(file)
            finally:
                file.close()
            self.rename(partial, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.unlink(partial)
            raise
        self.sync_folder(path.parent)


def _sync(descriptor: int) -> None:
    if F_FULLFSYNC is not None:
        fcntl(descriptor, F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)  # flushes the size too, if it changed
    else:
        os.fsync(descriptor)
