"""Reading npz files without unpickling, without evaluating headers, and with limits on sizes."""

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cause.common.units import format_bytes
from cause.data import files
from cause.data.dataset import input_error

MOST_ENTRIES = 10_000
PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DAMAGED = (*files.DAMAGED, zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError)
# Commas between digits are required: if they were optional, a long row of digits would match in billions of ways.
_HEADER = re.compile(
    r"\{'descr': '([<>|](?:b1|[iu][1248]|f[248]|U\d{1,4}))', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,15}(?:, \d{1,15}){0,7},?)?)\), \}\s*"
)


class Arrays(Mapping[str, NDArray[Any]]):
    """The arrays of an npz file by name; an array is read when it is looked up.

    Parameters
    ----------
    path
        A file, or an open stream whose `str` is its name in errors.
    most
        The most bytes that all arrays may take; by default `files.MOST_BYTES`.

    Raises
    ------
    InputError
        If it is not an npz file, is damaged, or is too large; a lookup raises it if the array is damaged.
    """

    def __init__(self, path: Path | IO[bytes], most: int | None = None) -> None:
        self.path = path
        most = files.MOST_BYTES if most is None else most
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except OSError as error:
            raise input_error(path, f"cannot be read: {error.strerror or 'damaged'}") from None
        except DAMAGED:
            raise input_error(path, "not an npz file, or damaged or cut off") from None
        if len(entries) > MOST_ENTRIES:
            raise input_error(path, f"{len(entries):,} arrays: at most {MOST_ENTRIES:,}")
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            if not entry.filename.endswith(".npy") or re.search(r"[/\\]|\.\.", entry.filename):
                raise input_error(path, f"refused: it holds {entry.filename!r}, which is no array of an npz file")
            if entry.compress_type not in PLAIN or entry.flag_bits & 1:
                raise input_error(path, f"{entry.filename!r} is packed in an unknown way")
            if entry.filename[:-4] in self._entries:
                raise input_error(path, f"it holds {entry.filename!r} twice")
            self._entries[entry.filename[:-4]] = entry
        total = sum(entry.file_size for entry in entries)
        if total > most:
            raise input_error(path, f"{format_bytes(total)} when unpacked: at most {format_bytes(most)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> NDArray[Any]:
        entry = self._entries[name]
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(entry) as file:
                data = file.read(entry.file_size)  # a damaged stream may unpack to more
                if file.read(1):
                    raise ValueError("longer than declared")
            return self._array(name, data)
        except DAMAGED:
            raise input_error(self.path, f"the array {name!r} is damaged or cut off") from None

    def _array(self, name: str, data: bytes) -> NDArray[Any]:
        if data[:6] != b"\x93NUMPY" or data[6:8] not in (b"\x01\x00", b"\x02\x00"):
            raise input_error(self.path, f"{name!r} is not an array as numpy writes them")
        length, start = struct.unpack_from("<H", data, 8)[0], 10
        if data[6] == 2:
            length, start = struct.unpack_from("<I", data, 8)[0], 12
        header = _HEADER.fullmatch(data[start : start + min(length, 1000)].decode("latin-1"))
        if header is None:
            raise input_error(
                self.path, f"{name!r} holds something other than numbers or text, or its header is damaged"
            )
        kind = np.dtype(header[1])
        shape = tuple(int(side) for side in re.findall(r"\d+", header[3]))
        size = math.prod(shape) * kind.itemsize
        if size != len(data) - start - length or not kind.itemsize:
            raise input_error(
                self.path, f"{name!r} says it has the shape {shape}, but {len(data) - start - length:,} bytes are there"
            )
        values = np.frombuffer(data, kind, offset=start + length)
        return values.reshape(shape, order="F" if header[2] == "True" else "C").copy()


def is_zip(path: Path) -> bool:
    """Return whether a file begins like a zip archive."""
    return path.is_file() and files.head(path, 4) == b"PK\x03\x04"
