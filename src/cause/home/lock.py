"""One writer at a time."""

import fcntl
import os
from pathlib import Path

from cause.errors import HomeError


class Lock:
    """Held by the process that may change a home; the kernel lets go of it when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise HomeError(f"cannot open {str(path)!r}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._file, 32, 0).split(b"\n")[0].decode(errors="replace") or "unknown"
            os.close(self._file)
            raise HomeError(
                f"{str(path.parent)!r} is in use by process {holder}: stop it, or use a command that only reads"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
