"""An upload whose samples lie on the disk."""

import hmac
import struct
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common import positions as pos
from cause.common.hashing import Hashes, keyed_int, pack, scatter
from cause.common.positions import Positions
from cause.common.zeroize import wipe_arrays
from cause.device.store.blocks import (
    HANDLE_BYTES,
    ID_BYTES,
    SAMPLES,
    Block,
    Files,
    Meta,
    new_handles,
    open_block,
    open_meta,
)
from cause.device.vault import joint_key
from cause.device.vault.secrets_in_memory import Buffer, wipe, wiping
from cause.engine.arrays import ArrayUpload
from cause.errors import Cancelled, HomeError, VaultError

CACHED = 4_096
"""Blocks whose small part is kept in memory: about 6 kB each."""


class BlockStore:
    """Reads blocks by their names, and remembers the small part of those read last.

    Parameters
    ----------
    key
        Returns a copy of the key of a name, which is overwritten after use.
    """

    def __init__(self, files: Files, key: Callable[[bytes], bytes]) -> None:
        self.files, self.key = files, key
        self._metas: OrderedDict[bytes, Meta] = OrderedDict()

    def meta(self, name: bytes) -> Meta:
        found = self._metas.get(name)
        if found is not None:
            with suppress(KeyError):  # another thread may just have dropped it
                self._metas.move_to_end(name)
            return found
        opened: Meta = self._opened(name, open_meta)
        self._metas[name] = opened
        if len(self._metas) > CACHED:
            self._metas.popitem(last=False)
        try:
            wipe(self.key(name))
        except VaultError:  # it was forgotten while it was read
            self.drop(name)
            raise self._lost(name, "forgotten meanwhile") from None
        return opened

    def block(self, name: bytes) -> Block:
        found: Block = self._opened(name, open_block)
        return found

    def clear(self) -> None:
        """Keep nothing of what was read so far: another process may have destroyed some of it."""
        self._metas.clear()

    def drop(self, name: bytes) -> None:
        """Keep nothing of a block that is being forgotten."""
        self._metas.pop(name, None)

    def _opened(self, name: bytes, opener: Callable[[bytes, Buffer, bytes], Any]) -> Any:
        try:
            with wiping(self.key(name)) as key:
                return opener(name, key, self.files.read(name))
        except (VaultError, ValueError, KeyError, struct.error) as error:
            raise self._lost(name, error) from None

    def _lost(self, name: bytes, why: object) -> HomeError:
        path = str(self.files.path(name))
        return HomeError(f"samples in {path!r} are damaged or lost ({why}): `cause doctor --home` tells more")


class Blocks:
    """The blocks of one upload; shared by all pieces of it."""

    def __init__(self, upload_id: int, store: BlockStore, names: list[bytes]) -> None:
        self.upload_id, self.store, self.names = upload_id, store, names

        self.stale = False

    def replace(self, names: list[bytes]) -> None:
        """Read from these blocks from now on: some of them were written anew."""
        self.names = names

    def retire(self) -> None:
        """Let every later read fail: the upload was written anew with other positions."""
        self.stale = True

    def metas(self) -> Meta:
        self._refuse_if_stale()
        metas = [self.store.meta(name) for name in self.names]
        if not metas:
            raise HomeError(f"upload {self.upload_id} has no samples any more: they were forgotten")
        first = metas[0]
        if not first.handles.shape[1]:
            metas = [replace(meta, handles=self._old_handles(meta.positions)) for meta in metas]
            first = metas[0]
        if len(metas) == 1:
            return first
        parts = [
            np.concatenate([getattr(meta, part) for meta in metas])
            for part in ("positions", "labels", "ids", "digests", "handles")
        ]
        return Meta(parts[0], parts[1], parts[2], parts[3], parts[4], first.dtype, first.shape)

    def _old_handles(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Handles of rows that were stored without: they follow from the keys of the blocks, and die with them."""
        keys = [self.store.key(name) for name in self.names]
        key = joint_key(keys)
        wipe(*keys)
        handles = (hmac.digest(key, b"handle %d" % position, "sha256") for position in positions.tolist())
        table = b"".join(handle[:HANDLE_BYTES] for handle in handles)
        return np.frombuffer(table, dtype=np.uint8).reshape(-1, HANDLE_BYTES)

    def _refuse_if_stale(self) -> None:
        if self.stale:
            raise Cancelled("some of the data was forgotten, and the rest of the upload was written anew")

    def inputs(self, positions: Positions) -> NDArray[Any]:
        self._refuse_if_stale()
        wanted = pos.array(positions)
        parts = []
        for name in self.names:
            held = self.store.meta(name).positions
            rows = np.searchsorted(held, wanted[(wanted >= held[0]) & (wanted <= held[-1])])
            if len(rows):
                block = self.store.block(name)
                parts.append(block.x[rows])
                wipe_arrays(block.x)
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


class StoredUpload:
    """The samples of one user of one round, read from the disk when they are asked for."""

    def __init__(self, user: str, round_: int, positions: Positions, blocks: Blocks) -> None:
        self.user, self.round, self.positions, self.blocks = user, round_, positions, blocks

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        meta = self.blocks.metas()
        heads = np.ascontiguousarray(meta.ids[self._rows(meta, positions), :8]).tobytes()
        return scatter(keyed_int(key, "id"), np.frombuffer(heads, dtype="<i8"))

    def names(self, positions: Positions) -> bytes:
        meta = self.blocks.metas()
        return names_of(meta.ids[self._rows(meta, positions)])

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        meta = self.blocks.metas()
        return meta.labels[self._rows(meta, positions)]

    def arrays(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Inputs and labels."""
        return self.blocks.inputs(positions), self.labels(positions)

    def twins(self, positions: Positions) -> list[bytes]:
        meta = self.blocks.metas()
        return [row.tobytes() for row in meta.digests[self._rows(meta, positions)]]

    def handles(self, positions: Positions) -> NDArray[np.uint8]:
        """The handles of these samples, one row each."""
        meta = self.blocks.metas()
        return meta.handles[self._rows(meta, positions)]

    def keeping(self, positions: Positions) -> "StoredUpload":
        """The upload with these samples only; the others' bytes are the home's to destroy."""
        return StoredUpload(self.user, self.round, positions, self.blocks)

    def _rows(self, meta: Meta, positions: Positions) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(meta.positions, pos.array(positions)), dtype=np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        """A worker process gets the samples themselves: it has neither the files nor their keys."""
        meta = self.blocks.metas()
        rows = self._rows(meta, self.positions)
        ids, digests = ([row.tobytes() for row in part[rows]] for part in (meta.ids, meta.digests))
        x = self.blocks.inputs(self.positions)
        return ArrayUpload.restored, (self.user, self.round, self.positions, x, meta.labels[rows], digests, ids)


def names_of(ids: NDArray[np.uint8]) -> bytes:
    """Bytes that name these samples by their ids, whatever their order."""
    return pack(b"".join(sorted(row.tobytes() for row in ids)))


def cut(upload: ArrayUpload) -> list[Block]:
    """An upload in blocks."""
    positions = pos.array(upload.positions)
    x, labels, digests, ids = upload.rows()
    tables = [np.frombuffer(b"".join(each), dtype=np.uint8).reshape(-1, ID_BYTES) for each in (ids, digests)]
    given = upload.handles
    handles = np.frombuffer(b"".join(given), dtype=np.uint8).reshape(-1, HANDLE_BYTES) if given else new_handles(len(x))
    return cut_block(Block(positions, labels, tables[0], tables[1], handles, x))


def cut_block(whole: Block) -> list[Block]:
    """Rows in blocks of at most `SAMPLES`."""
    return [
        whole.keeping(np.arange(start, min(start + SAMPLES, len(whole)))) for start in range(0, len(whole), SAMPLES)
    ]
