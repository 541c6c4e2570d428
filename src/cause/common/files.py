"""Absolute paths, and atomic writing of files."""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cause.common.home_paths import refuse_inside_home
from cause.errors import InputError


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return a path that stays the same when the program changes its working directory; links are not followed.

    Raises
    ------
    InputError
        If the path is relative and the working directory does not exist any more, or if a file of that name cannot be
        opened by all libraries: names are UTF-8 for some of them whatever the locale says.

    Examples
    --------
    >>> absolute("/data/device")
    PosixPath('/data/device')
    """
    try:
        full = Path(path).absolute()
    except OSError:
        raise InputError(f"{os.fspath(path)!r} is relative to a folder that is gone: name an absolute path") from None
    if "\0" in str(full):
        raise InputError(f"{os.fspath(path)!r} is no path: it has a null character")
    encoding = sys.getfilesystemencoding()
    if not str(full).isascii() and encoding.replace("-", "").lower() != "utf8":
        raise InputError(
            f"{str(full)!a} has characters outside of ASCII, and the locale's encoding is {encoding}: set "
            "LC_ALL=C.UTF-8 or PYTHONUTF8=1"
        )
    if any("\udc80" <= character <= "\udcff" for character in str(full)):
        raise InputError(f"{str(full)!a} is not UTF-8: rename it")
    return full


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file, whole or not at all."""
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file():  # a pipe or a device is written to, not replaced
            target.write_bytes(data)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=".cause-", suffix=".part", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(partial).chmod(0o666 & ~_umask())  # as an ordinary new file; mkstemp's is private
            Path(partial).replace(target)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from None


def check_writable(path: str | Path) -> None:
    """Refuse a file that could not be written, before any work. Creates nothing."""
    try:
        target = Path(path).resolve()
        folder = target.parent
        while not folder.exists():
            folder = folder.parent
        if target.is_dir():
            raise InputError(f"cannot write {str(path)!r}: it is a directory")
        refuse_inside_home(target, "what a command writes")
        if not folder.is_dir():
            raise InputError(f"cannot write {str(path)!r}: {str(folder)!r} is not a directory")
        if not os.access(folder, os.W_OK):
            raise InputError(f"cannot write {str(path)!r}: no permission in {str(folder)!r}")
    except (OSError, RuntimeError) as error:
        raise InputError(f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None


def refuse_same(path: Path, others: Iterable[Path]) -> None:
    """Raise an `InputError` if a file to be written is one of these, which are read or must be kept."""
    for other in others:
        if path.resolve() == other.resolve():
            raise InputError(f"cannot write {str(path)!r}: it would replace a file that is needed; name another")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode(errors="backslashreplace"))
