"""Reading untrusted files: at most a limit of bytes, and every failure is an `InputError` of one line."""

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cause.common.units import format_bytes
from cause.data.dataset import input_error

MOST_BYTES = 4 * 2**30  # decompressed; the largest official file here, SVHN's "extra", has 1.6 GB
PIECE_BYTES = 2**20
GZIP = b"\x1f\x8b"

# What the standard library's decompressors and archive readers raise on damaged input.
DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, OverflowError)


def read(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a file, unpacked if it is gzip: at most `most`, by default `MOST_BYTES`."""
    most = MOST_BYTES if most is None else most
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
            file.seek(0)
            if packed:
                return _at_most(gzip.GzipFile(fileobj=file), most, path)
            return _at_most(file, most, path, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise input_error(path, _why(error)) from None
    except DAMAGED:
        raise input_error(path, "damaged or cut off: it does not unpack") from None


def head(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, unpacked if it is gzip; no bytes if it cannot be read."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
            file.seek(0)
            source: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
            return source.read(count)
    except DAMAGED:
        return b""


def members(path: Path, names: Collection[str], most: int | None = None) -> dict[str, bytes]:
    """Read files out of a tar archive, packed or not. Nothing is written to disk.

    Parameters
    ----------
    path
        The archive.
    names
        The names of the files to read, without their folders.
    most
        The most bytes that the archive may unpack to; by default `MOST_BYTES`.

    Returns
    -------
    dict
        The bytes of the files that are there, by name.

    Raises
    ------
    InputError
        If the archive is damaged or too large, has a path that leads out of it, or has anything but plain files and
        folders; sparse files are refused, too, since they may unpack to any size.
    """
    contents: dict[str, bytes] = {}
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
            file.seek(0)
            source: Any = _Bounded(gzip.GzipFile(fileobj=file) if packed else file, path, most or MOST_BYTES)
            with tarfile.open(fileobj=source, mode="r|") as archive:
                for member in archive:
                    name = PurePosixPath(member.name)
                    if name.is_absolute() or ".." in name.parts or "\\" in member.name:
                        raise input_error(path, f"refused: it holds {member.name!r}, which leads out of the archive")
                    if not (member.isfile() or member.isdir()):
                        raise input_error(path, f"refused: {member.name!r} is neither a file nor a folder")
                    if member.issparse():
                        raise input_error(path, f"refused: {member.name!r} is a file with holes")
                    if member.isfile() and name.name in names:
                        if name.name in contents:
                            raise input_error(path, f"it holds {name.name!r} twice")
                        content = archive.extractfile(member)
                        data = b"" if content is None else content.read()
                        if len(data) != member.size:
                            raise input_error(path, f"cut off within {member.name!r}")
                        contents[name.name] = data
    except DAMAGED as error:
        what = _why(error) if isinstance(error, OSError) and error.strerror else "damaged or cut off: not a tar archive"
        raise input_error(path, what) from None
    return contents


def is_tar(path: Path) -> bool:
    """Return whether a file begins like a tar archive, packed or not."""
    return path.is_file() and head(path, 262)[257:262] == b"ustar"


class _Bounded(io.RawIOBase):
    """A stream that raises an error when more than a limit of bytes is read."""

    def __init__(self, source: Any, path: Path, most: int) -> None:
        self._source, self._path, self._most, self._bytes_read = source, path, most, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._source.read(size if size >= 0 else self._most - self._bytes_read + 1)
        self._bytes_read += len(data)
        if self._bytes_read > self._most:
            raise input_error(self._path, f"more than {format_bytes(self._most)} when unpacked")
        return data


def _at_most(source: Any, most: int, path: Path, expected: int = PIECE_BYTES) -> bytes:
    """Read to the end, first the expected number of bytes at once, then in pieces.

    `read(n)` allocates n bytes however few there are, and where freed memory is overwritten the C library fills them,
    too: a limit of gigabytes must not be passed as n.
    """
    pieces: list[bytes] = []
    left, size = most + 1, expected + 1
    while left and (piece := source.read(min(left, size))):
        pieces.append(piece)
        left, size = left - len(piece), PIECE_BYTES
    if not left:
        raise input_error(path, f"more than {format_bytes(most)} when unpacked")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _why(error: OSError) -> str:
    return f"cannot be read: {error.strerror}" if error.strerror else "damaged or cut off: it does not unpack"
