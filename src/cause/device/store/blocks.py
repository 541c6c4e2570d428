"""Samples at rest: blocks of one upload, each sealed under a key of its own, each a file.

A block is two sealed parts: what the engine asks often (positions, labels, ids, handles), and the inputs. To forget
some samples of a block is to write the others under a new key and to destroy the old one.

Positions are a random permutation of the upload (`ArrayUpload.shuffled`), so neither a gap among them nor a short block
says anything about what the missing samples were.
"""

import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.device.disk import Disk
from cause.device.vault import open_sealed, seal
from cause.device.vault.secrets_in_memory import Buffer, wiping
from cause.engine.arrays import raw
from cause.errors import HomeError, ReadError, VaultError

SAMPLES = 128
"""The most samples of a block: forgetting one of them rewrites the others."""
ID_BYTES = 16
_HEAD = struct.Struct(">4sQ")
HANDLE_BYTES = 8
"""A handle names a row for its user. It is random, never derived from the sample."""
_MAGIC = b"CBK2"
_WITHOUT_HANDLES = b"CBK1"
"""Blocks of formats 1 to 4: rows have no handles, and positions are ranks of digests."""


@dataclass(frozen=True)
class Block:
    """Some samples of an upload, in the order of their positions."""

    positions: NDArray[np.int64]
    labels: NDArray[np.int64]
    ids: NDArray[np.uint8]  # one row of ID_BYTES a sample
    digests: NDArray[np.uint8]
    handles: NDArray[np.uint8]  # one row of HANDLE_BYTES a sample
    x: NDArray[Any]

    def __len__(self) -> int:
        return len(self.positions)

    def keeping(self, chosen: NDArray[Any]) -> "Block":
        """Return a block with these rows only."""
        numbers = (self.positions, self.labels, self.ids, self.digests, self.handles, self.x)
        return Block(*(part[chosen] for part in numbers))

    def with_handles(self, handles: Mapping[int, bytes]) -> "Block":
        """Return the same rows, some of them with new handles, which are given by position."""
        at = [row for row, position in enumerate(self.positions.tolist()) if position in handles]
        if not at:
            return self
        changed = self.handles.copy()
        for row in at:
            changed[row] = np.frombuffer(handles[int(self.positions[row])], dtype=np.uint8)
        return replace(self, handles=changed)

    def sealed(self, name: bytes, key: bytes) -> bytes:
        """Return the sealed bytes of the block's file."""
        head = json.dumps({"n": len(self), "dtype": self.x.dtype.str, "shape": self.x.shape[1:]}).encode()
        numbers = (self.positions, self.labels, self.ids, self.digests, self.handles)
        meta = struct.pack(">I", len(head)) + head + b"".join(part.tobytes() for part in numbers)
        first = seal(key, meta, name + b"meta")
        return _HEAD.pack(_MAGIC, len(first)) + first + seal(key, raw(self.x), name + b"x")


@dataclass(frozen=True)
class Meta:
    """A block without its inputs."""

    positions: NDArray[np.int64]
    labels: NDArray[np.int64]
    ids: NDArray[np.uint8]
    digests: NDArray[np.uint8]
    handles: NDArray[np.uint8]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def open_meta(name: bytes, key: Buffer, data: bytes) -> Meta:
    """Open the part of a block that is needed often: everything but the inputs."""
    if len(data) < _HEAD.size:
        raise VaultError(f"a block has at least {_HEAD.size} bytes, not {len(data)}")
    magic, length = _HEAD.unpack_from(data)
    if magic not in (_MAGIC, _WITHOUT_HANDLES):
        raise VaultError("not a block of this version")
    handle_bytes = HANDLE_BYTES if magic == _MAGIC else 0
    meta = open_sealed(key, data[_HEAD.size : _HEAD.size + length], name + b"meta")
    (size,) = struct.unpack_from(">I", meta)
    head = json.loads(meta[4 : 4 + size])
    count, rest = head["n"], memoryview(meta)[4 + size :]
    cuts = [0]
    for width in (8, 8, ID_BYTES, ID_BYTES, handle_bytes):
        cuts.append(cuts[-1] + count * width)
    parts = [rest[a:b] for a, b in pairwise(cuts)]
    return Meta(
        np.frombuffer(parts[0], dtype=np.int64),
        np.frombuffer(parts[1], dtype=np.int64),
        np.frombuffer(parts[2], dtype=np.uint8).reshape(count, ID_BYTES),
        np.frombuffer(parts[3], dtype=np.uint8).reshape(count, ID_BYTES),
        np.frombuffer(parts[4], dtype=np.uint8).reshape(count, handle_bytes),
        np.dtype(head["dtype"]),
        tuple(head["shape"]),
    )


def open_block(name: bytes, key: Buffer, data: bytes) -> Block:
    """Open a whole block."""
    meta = open_meta(name, key, data)
    _, length = _HEAD.unpack_from(data)
    with wiping(open_sealed(key, memoryview(data)[_HEAD.size + length :], name + b"x")) as plain:
        x = np.frombuffer(plain, dtype=meta.dtype).reshape(len(meta.positions), *meta.shape).copy()
    return Block(meta.positions, meta.labels, meta.ids, meta.digests, meta.handles, x)


def new_handles(rows: int) -> NDArray[np.uint8]:
    """Return new random handles, one for each row."""
    return np.frombuffer(os.urandom(rows * HANDLE_BYTES), dtype=np.uint8).reshape(rows, HANDLE_BYTES)


class Files:
    """Sealed files of one folder, named by their keys.

    Parameters
    ----------
    folder, disk
        Where they are, and how they are reached.
    check
        Raises a HomeError if the folder is no longer that of the open home; called before anything is changed. None if
        no home is open: then a missing folder is one whose files are all missing.
    """

    def __init__(self, folder: Path, disk: Disk, check: Callable[[], None] | None = None) -> None:
        self.folder, self._disk, self._check = folder, disk, check

    def path(self, name: bytes) -> Path:
        """Return the path of a file."""
        return self.folder / name.hex()

    def write(self, contents: Sequence[tuple[bytes, bytes]]) -> None:
        """Write new files, durably: name and bytes of each; HomeError if the disk refuses."""
        if not contents:
            return  # a forget of whole blocks need not wait for the disk here
        if self._check is not None:
            self._check()
        opened = []
        try:
            for name, data in contents:
                file = self._disk.create(self.path(name))
                opened.append(file)
                file.write_at(0, data)
            for start in range(0, len(opened), 8):
                self._disk.sync(*opened[start : start + 8])
            self._disk.sync_folder(self.folder)
        except OSError as error:
            raise HomeError(f"cannot write into {str(self.folder)!r}: {error.strerror}") from None
        finally:
            for file in opened:
                file.close()

    def read(self, name: bytes) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        HomeError
            If the file is missing from its folder.
        ReadError
            If it cannot be read now, or the folder is missing: its disk may be unmounted, so no file counts as lost.
        """
        try:
            return self._disk.read(self.path(name))
        except FileNotFoundError as error:
            self._refuse_if_gone()
            raise HomeError(f"cannot read {str(self.path(name))!r}: {error.strerror}") from None
        except OSError as error:
            raise ReadError(f"cannot read {str(self.path(name))!r}: {error.strerror}: try again") from None

    def remove(self, names: Sequence[bytes]) -> None:
        """Remove files, durably; missing ones are skipped. HomeError if the disk refuses."""
        if names and self._check is not None:
            self._check()
        removed = False
        try:
            for name in names:
                try:
                    self._disk.unlink(self.path(name))
                    removed = True
                except FileNotFoundError:
                    self._refuse_if_gone()
                    continue
            if removed:
                self._disk.sync_folder(self.folder)
        except OSError as error:
            raise HomeError(f"cannot remove from {str(self.folder)!r}: {error.strerror}") from None

    def _refuse_if_gone(self) -> None:
        if self._check is None:
            return
        try:
            self._check()
        except HomeError as error:
            raise ReadError(str(error)) from None
        if not self._disk.exists(self.folder):
            raise ReadError(f"{str(self.folder)!r} is gone: put it back (is its disk mounted?), or restore a backup")

    def names(self) -> list[str]:
        """Return the names of all files in the folder, sorted; HomeError if it cannot be listed."""
        try:
            return self._disk.names(self.folder)
        except OSError as error:
            raise HomeError(f"cannot list {str(self.folder)!r}: {error.strerror}") from None
