"""Real samples: uploads that carry their data and know each sample by a digest of it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.common import positions as pos
from cause.common.hashing import Hashes, keyed_int, pack, scatter
from cause.common.positions import Positions
from cause.engine.arguments import array_of
from cause.engine.samples import TraceUpload
from cause.errors import InputError

Array = NDArray[Any]


class ArrayUpload:
    """The samples of one user of one round, with inputs and labels.

    A sample's id is a digest of (user, round, x, y) and its ordinal among identical ones, so it depends on nothing
    else that was ever uploaded, nor on the order in which it came. Positions are ranks by that digest; of identical
    samples the highest ordinal has the lowest position and goes first, so that what is left of them is what a system
    would have that met fewer.

    >>> upload = ArrayUpload("alice", 1, np.array([[5.0], [7.0], [5.0]]), [0, 1, 0])
    >>> len(upload.positions), sorted(upload.labels(upload.positions).tolist())
    (3, [0, 0, 1])
    """

    def __init__(self, user: str, round_: int, x: ArrayLike, y: ArrayLike, handles: Sequence[bytes] = ()) -> None:
        self.user, self.round = user, round_
        inputs, labels = checked(user, x, y)
        digests = [_digest(user, round_, row, int(label)) for row, label in zip(inputs, labels, strict=True)]
        ordinals: list[int] = []
        met: dict[bytes, int] = {}
        for digest in digests:
            ordinals.append(met.get(digest, 0))
            met[digest] = ordinals[-1] + 1
        order = sorted(range(len(digests)), key=lambda i: (digests[i], -ordinals[i]))
        self._set(range(len(order)), inputs[order], labels[order], [digests[i] for i in order])
        self._ids = [_with_ordinal(digests[i], ordinals[i]) for i in order]
        self._handles = [handles[i] for i in order] if handles else []

    def _set(self, positions: Positions, x: Array, y: NDArray[np.int64], digests: list[bytes]) -> None:
        self._positions, self._x, self._y, self._digests = positions, x, y, digests

    @property
    def positions(self) -> Positions:
        return self._positions

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        heads = b"".join(self._ids[i][:8] for i in self._indices(positions).tolist())
        return scatter(keyed_int(key, "id"), np.frombuffer(heads, dtype="<i8"))

    def names(self, positions: Positions) -> bytes:
        return pack(b"".join(sorted(self._ids[i] for i in self._indices(positions).tolist())))

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        return self._y[self._indices(positions)]

    def arrays(self, positions: Positions) -> tuple[Array, NDArray[np.int64]]:
        """Inputs and labels."""
        indices = self._indices(positions)
        return self._x[indices], self._y[indices]

    def twins(self, positions: Positions) -> list[bytes]:
        return [self._digests[i] for i in self._indices(positions).tolist()]

    def keeping(self, positions: Positions) -> "ArrayUpload":
        """The upload with these samples only: copies, so that the others' memory goes."""
        if len(positions) == len(self._positions):
            return self
        indices = self._indices(positions)
        return self._taking(indices, positions)

    def shuffled(self, permutation: NDArray[np.int64]) -> "ArrayUpload":
        """The same samples with their positions permuted, for a device whose positions must tell nothing.

        Identical samples keep their order among each other: the one with the highest ordinal has the lowest position.
        Ids, and with them training order, shards and identities, are what they were.
        """
        order = [int(i) for i in permutation]
        places: dict[bytes, list[int]] = {}
        for place, index in enumerate(order):
            places.setdefault(self._digests[index], []).append(place)
        for same in places.values():
            if len(same) > 1:
                for place, index in zip(same, sorted(order[place] for place in same), strict=True):
                    order[place] = index
        return self._taking(np.array(order, dtype=np.int64), range(len(order)))

    def _taking(self, indices: NDArray[np.int64], positions: Positions) -> "ArrayUpload":
        rows = indices.tolist()
        digests, ids = ([each[i] for i in rows] for each in (self._digests, self._ids))
        handles = [self._handles[i] for i in rows] if self._handles else []
        return ArrayUpload.restored(
            self.user, self.round, positions, self._x[indices], self._y[indices], digests, ids, handles
        )

    @classmethod
    def unnamed(cls, user: str, x: ArrayLike, y: ArrayLike) -> "ArrayUpload":
        """Samples as they came, without ids, which take long to make: to be looked at, not to be learned from."""
        inputs, labels = checked(user, x, y)
        return cls.restored(user, 0, range(len(labels)), inputs, labels, [], [])

    @classmethod
    def restored(
        cls,
        user: str,
        round_: int,
        positions: Positions,
        x: Array,
        y: NDArray[np.int64],
        digests: list[bytes],
        ids: list[bytes],
        handles: list[bytes] | None = None,
    ) -> "ArrayUpload":
        """An upload whose ids are known already."""
        upload = object.__new__(cls)
        upload.user, upload.round, upload._ids, upload._handles = user, round_, ids, handles or []
        upload._set(positions, x, y, digests)
        return upload

    @classmethod
    def joined(cls, parts: Sequence["ArrayUpload"]) -> "ArrayUpload":
        """One upload of the parts that it was cut into."""
        first = parts[0]
        order = np.argsort(np.concatenate([pos.array(part.positions) for part in parts]), kind="stable")
        digests = [digest for part in parts for digest in part._digests]
        ids = [name for part in parts for name in part._ids]
        handles = [handle for part in parts for handle in part._handles]
        return cls.restored(
            first.user,
            first.round,
            pos.union([part.positions for part in parts]),
            np.concatenate([part._x for part in parts])[order],
            np.concatenate([part._y for part in parts])[order],
            [digests[i] for i in order.tolist()],
            [ids[i] for i in order.tolist()],
            [handles[i] for i in order.tolist()] if handles else [],
        )

    def rows(self) -> tuple[Array, NDArray[np.int64], list[bytes], list[bytes]]:
        """Inputs, labels, digests and ids, in the order of the positions."""
        return self._x, self._y, self._digests, self._ids

    @property
    def handles(self) -> list[bytes]:
        """The rows' handles, in the order of the positions; none if they were given none."""
        return self._handles

    def _indices(self, positions: Positions) -> NDArray[np.int64]:
        wanted = pos.array(positions)
        if isinstance(self._positions, range):
            return np.asarray(wanted - self._positions.start)
        return np.asarray(np.searchsorted(self._positions, wanted), dtype=np.int64)


class TraceData:
    """An upload of a trace in a real run: ids are (user, round, position), and each has its data.

    >>> from cause.engine.samples import Part
    >>> TraceData(TraceUpload("u7", 1, (Part(2),)), [[1.0], [2.0]], [0, 1]).arrays(range(1, 2))[1]
    array([1])
    """

    def __init__(self, upload: TraceUpload, x: ArrayLike, y: ArrayLike) -> None:
        self._upload = upload
        self._x, self._y = checked(upload.user, x, y)
        if len(self._y) != len(upload.positions):
            raise InputError(
                f"user {upload.user!r} has {len(upload.positions)} samples in the trace, not {len(self._y)}"
            )

    @property
    def user(self) -> str:
        return self._upload.user

    @property
    def round(self) -> int:
        return self._upload.round

    @property
    def positions(self) -> Positions:
        return self._upload.positions

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        return self._upload.hashes(key, positions)

    def names(self, positions: Positions) -> bytes:
        return self._upload.names(positions)

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        return self._y[self._upload.indices(positions)]

    def arrays(self, positions: Positions) -> tuple[Array, NDArray[np.int64]]:
        """Inputs and labels."""
        indices = self._upload.indices(positions)
        return self._x[indices], self._y[indices]

    def given_shards(self) -> int | NDArray[np.int64]:
        """The shard that the trace names."""
        return self._upload.given_shards()

    def twins(self, positions: Positions) -> tuple[bytes, ...]:
        return ()

    def keeping(self, positions: Positions) -> "TraceData":
        """The upload with these samples only."""
        return TraceData(self._upload.keeping(positions), *self.arrays(positions))


def checked(user: str, x: ArrayLike, y: ArrayLike, *, copy: bool = True) -> tuple[Array, NDArray[np.int64]]:
    """Inputs and labels as arrays, or what is wrong with them.

    Inputs are copied: what the caller does to theirs later must change no replay.
    """
    whose = f"of user {user!r}"
    inputs, labels = array_of(f"inputs {whose}", x, copy=copy), array_of(f"labels {whose}", y)
    if inputs.ndim < 1 or labels.ndim != 1 or len(inputs) != len(labels):
        raise InputError(
            f"inputs {whose} have shape {inputs.shape} and labels {labels.shape}: one label for each input"
        )
    if not len(labels):
        raise InputError(f"the upload {whose} is empty")
    if inputs.dtype.kind not in "buif":
        raise InputError(f"inputs {whose} must be numbers, not {inputs.dtype}")
    if labels.dtype.kind not in "bui":
        raise InputError(f"labels {whose} must be whole numbers, not {labels.dtype}")
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        row = int(np.argmin(np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)))
        value = inputs[row][~np.isfinite(inputs[row])].flat[0]
        raise InputError(f"inputs {whose} must be finite: row {row} holds {value}")
    if labels.min() < 0:
        raise InputError(f"labels {whose} start from 0, not {labels.min()} (row {int(labels.argmin())})")
    return inputs, labels.astype(np.int64)


def _digest(user: str, round_: int, x: Array, label: int) -> bytes:
    """Digest of `pack(user, round_, dtype, shape, bytes of x, label)`, made without a copy of x that would stay behind
    in memory."""
    described = hashlib.sha256(pack(user, round_, x.dtype.str, str(x.shape)))
    described.update(b"b%d:" % x.nbytes)
    described.update(raw(x))
    described.update(pack(label))
    return described.digest()[:16]


def raw(x: Array) -> memoryview:
    """The bytes of an array in the order of its elements: a view, or of one that is not contiguous a copy.

    >>> raw(np.array([[1, 2], [3, 4]], dtype=np.uint8).T).tolist()
    [1, 3, 2, 4]
    """
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8).data


def _with_ordinal(digest: bytes, ordinal: int) -> bytes:
    return hashlib.sha256(digest + ordinal.to_bytes(8, "big")).digest()[:16]
