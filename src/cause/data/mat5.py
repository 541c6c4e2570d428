"""Reading numeric arrays of MATLAB 5 files; sizes are checked before memory is allocated.

`scipy.io.loadmat` is not used: a single wrong bit in such a file can crash it with a segmentation fault.
"""

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.units import format_bytes
from cause.data import files
from cause.data.dataset import input_error

MATRIX, COMPRESSED = 14, 15
NUMERIC = range(6, 16)  # array classes: double, single, (u)int8 to (u)int64
COMPLEX = 0x0800
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}


def is_mat5(path: Path) -> bool:
    """Return whether a file begins like a MATLAB file."""
    return path.is_file() and files.head(path, 6) == b"MATLAB"


def read_arrays(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return the numeric arrays with these names; raise an `InputError` if one is missing or the file is damaged."""
    data = memoryview(files.read(path))
    try:
        order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:128]))
        if order is None or bytes(data[:6]) != b"MATLAB":
            raise input_error(path, "not a MATLAB file of version 5")
        if struct.unpack_from(order + "H", data, 124)[0] != 0x0100:
            raise input_error(path, "not a MATLAB file of version 5 (7.3 is HDF5): save it with -v7")
        arrays: dict[str, NDArray[Any]] = {}
        for kind, content in _elements(data[128:], order):
            if kind == COMPRESSED:
                kind, content = _unpacked(content, order, path)
            if kind == MATRIX and (named := _matrix(content, order, names, path)):
                arrays[named[0]] = named[1]
    except (struct.error, zlib.error, ValueError, IndexError, OverflowError):
        raise input_error(path, "damaged or cut off") from None
    for name in names:
        if name not in arrays:
            raise input_error(path, f"there is no numeric array {name!r} in it")
    return arrays


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield type and content of each data element."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(order + "II", data, at)
        if not kind:  # no type; zeros pack to almost nothing and would be read for minutes
            raise ValueError("no element")
        if kind >> 16:  # a small element: size and type share a word, the content is in the next
            kind, size, start, after = kind & 0xFFFF, kind >> 16, at + 4, at + 8
            if size > 4:
                raise ValueError("small element")
        else:
            start = at + 8
            after = start + size if kind == COMPRESSED else start + (size + 7) // 8 * 8
        if start + size > len(data):
            raise ValueError("cut off")
        yield kind, data[start : start + size]
        at = after


def _unpacked(content: memoryview, order: str, path: Path) -> tuple[int, memoryview]:
    stream = zlib.decompressobj()
    plain = stream.decompress(content, files.MOST_BYTES + 1)
    if len(plain) > files.MOST_BYTES:
        raise input_error(path, f"more than {format_bytes(files.MOST_BYTES)} when unpacked")
    if not stream.eof:
        raise ValueError("cut off")
    return next(_elements(memoryview(plain), order))


def _matrix(content: memoryview, order: str, names: Collection[str], path: Path) -> tuple[str, NDArray[Any]] | None:
    parts = _elements(content, order)
    flags = struct.unpack_from(order + "I", next(parts, (0, content[:0]))[1])[0]
    shape = np.frombuffer(next(parts, (0, content[:0]))[1], order + "i4").tolist()
    name = bytes(next(parts, (0, content[:0]))[1]).decode("latin-1")
    if name not in names:
        return None
    if flags & 0xFF not in NUMERIC or flags & COMPLEX:
        raise input_error(path, f"{name!r} is not an array of real numbers")
    kind, values = next(parts, (0, content[:0]))
    if kind not in TYPES:
        raise input_error(path, f"{name!r} is stored in an unknown type ({kind})")
    stored = np.frombuffer(values, order + TYPES[kind])
    if min(shape, default=-1) < 0 or math.prod(shape) != len(stored):
        raise input_error(path, f"{name!r} says it has the shape {tuple(shape)}, but {len(stored):,} numbers are there")
    return name, stored.reshape(shape, order="F")
