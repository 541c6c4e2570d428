"""Uploads whose samples are read from the disk on demand."""

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
from cause.device.advice import doctor_advice
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
        """Return a block without its inputs, from memory if it was read before; HomeError if it cannot be opened."""
        cached = self._metas.get(name)
        if cached is not None:
            with suppress(KeyError):  # another thread may just have dropped it
                self._metas.move_to_end(name)
            return cached
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
        """Return a whole block; HomeError if it cannot be opened."""
        block: Block = self._opened(name, open_block)
        return block

    def clear(self) -> None:
        """Empty the cache: another process may have destroyed some of the blocks."""
        self._metas.clear()

    def drop(self, name: bytes) -> None:
        """Remove a block that is being forgotten from the cache."""
        self._metas.pop(name, None)

    def _opened(self, name: bytes, opener: Callable[[bytes, Buffer, bytes], Any]) -> Any:
        try:
            with wiping(self.key(name)) as key:
                return opener(name, key, self.files.read(name))
        except (VaultError, ValueError, KeyError, struct.error) as error:
            raise self._lost(name, error) from None

    def _lost(self, name: bytes, why: object) -> HomeError:
        path = self.files.path(name)
        return HomeError(f"samples in {str(path)!r} are damaged or lost ({why})", doctor_advice(path.parent.parent))


class Blocks:
    """The blocks of one upload; shared by all pieces of it."""

    def __init__(self, upload_id: int, store: BlockStore, names: list[bytes]) -> None:
        self.upload_id, self.store, self.names = upload_id, store, names
        self.stale = False

    def replace(self, names: list[bytes]) -> None:
        """Read from these blocks from now on: some of the old ones were rewritten."""
        self.names = names

    def retire(self) -> None:
        """Let every later read raise Cancelled: the upload was rewritten with other positions."""
        self.stale = True

    def metas(self) -> Meta:
        """Return all rows of the upload without their inputs, in the order of their positions."""
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
        """Return handles of rows that were stored without: they are derived from the keys of the blocks."""
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
        """Return the inputs at these positions."""
        self._refuse_if_stale()
        targets = pos.array(positions)
        parts = []
        for name in self.names:
            held = self.store.meta(name).positions
            rows = np.searchsorted(held, targets[(targets >= held[0]) & (targets <= held[-1])])
            if len(rows):
                block = self.store.block(name)
                parts.append(block.x[rows])
                wipe_arrays(block.x)
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


class StoredUpload:
    """The samples of one user of one round, read from the disk on demand.

    Parameters
    ----------
    user, round_
        Whose upload it is, and of which round.
    positions
        The retained samples.
    blocks
        The blocks that hold them.
    """

    def __init__(self, user: str, round_: int, positions: Positions, blocks: Blocks) -> None:
        self.user, self.round, self.positions, self.blocks = user, round_, positions, blocks

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        """Return a keyed hash of each of these samples, which follows from its id."""
        meta = self.blocks.metas()
        heads = np.ascontiguousarray(meta.ids[self._rows(meta, positions), :8]).tobytes()
        return scatter(keyed_int(key, "id"), np.frombuffer(heads, dtype="<i8"))

    def names(self, positions: Positions) -> bytes:
        """Return bytes that name these samples by their ids, in any order."""
        meta = self.blocks.metas()
        return names_of(meta.ids[self._rows(meta, positions)])

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        """Return the labels of these samples."""
        meta = self.blocks.metas()
        return meta.labels[self._rows(meta, positions)]

    def arrays(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return inputs and labels."""
        return self.blocks.inputs(positions), self.labels(positions)

    def twins(self, positions: Positions) -> list[bytes]:
        """Return the digest of each of these samples: identical ones have the same."""
        meta = self.blocks.metas()
        return [row.tobytes() for row in meta.digests[self._rows(meta, positions)]]

    def handles(self, positions: Positions) -> NDArray[np.uint8]:
        """Return the handles of these samples, one row each."""
        meta = self.blocks.metas()
        return meta.handles[self._rows(meta, positions)]

    def keeping(self, positions: Positions) -> "StoredUpload":
        """Return the upload with these samples only; the home destroys the bytes of the others."""
        return StoredUpload(self.user, self.round, positions, self.blocks)

    def _rows(self, meta: Meta, positions: Positions) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(meta.positions, pos.array(positions)), dtype=np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a worker process gets the samples themselves: it has neither the files nor their keys."""
        meta = self.blocks.metas()
        rows = self._rows(meta, self.positions)
        ids, digests = ([row.tobytes() for row in part[rows]] for part in (meta.ids, meta.digests))
        x = self.blocks.inputs(self.positions)
        return ArrayUpload.restored, (self.user, self.round, self.positions, x, meta.labels[rows], digests, ids)


def names_of(ids: NDArray[np.uint8]) -> bytes:
    """Return bytes that name samples by their ids, the same for any order."""
    return pack(b"".join(sorted(row.tobytes() for row in ids)))


def cut(upload: ArrayUpload) -> list[Block]:
    """Cut an upload into blocks of at most `SAMPLES` rows; it gets handles if it has none."""
    positions = pos.array(upload.positions)
    x, labels, digests, ids = upload.rows()
    tables = [np.frombuffer(b"".join(part), dtype=np.uint8).reshape(-1, ID_BYTES) for part in (ids, digests)]
    if upload.handles:
        handles = np.frombuffer(b"".join(upload.handles), dtype=np.uint8).reshape(-1, HANDLE_BYTES)
    else:
        handles = new_handles(len(x))
    return cut_block(Block(positions, labels, tables[0], tables[1], handles, x))


def cut_block(whole: Block) -> list[Block]:
    """Cut a block into blocks of at most `SAMPLES` rows."""
    return [
        whole.keeping(np.arange(start, min(start + SAMPLES, len(whole)))) for start in range(0, len(whole), SAMPLES)
    ]
