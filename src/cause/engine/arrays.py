"""Uploads that hold inputs and labels, and name each sample by a digest of them."""

import hashlib
from collections.abc import Callable, Sequence
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

    A sample's id is a digest of (user, round, x, y) and of its ordinal among identical samples, so it does not depend
    on other samples or on the order of rows. Positions are ranks by that digest. Of identical samples the highest
    ordinal has the lowest position and is deleted first, so the retained ones have the ids that they would have had
    without the others.

    Parameters
    ----------
    user, round_
        Whose samples they are, and of which round.
    x, y
        Inputs and labels, one row a sample; inputs are copied.
    handles
        The handles of the rows; empty if they have none.

    Raises
    ------
    InputError
        If inputs and labels do not fit together, or are not finite numbers.

    Examples
    --------
    >>> upload = ArrayUpload("alice", 1, np.array([[5.0], [7.0], [5.0]]), [0, 1, 0])
    >>> len(upload.positions), sorted(upload.labels(upload.positions).tolist())
    (3, [0, 0, 1])
    """

    def __init__(self, user: str, round_: int, x: ArrayLike, y: ArrayLike, handles: Sequence[bytes] = ()) -> None:
        self.user, self.round = user, round_
        inputs, labels = checked(user, x, y)
        digests = [_digest(user, round_, row, int(label)) for row, label in zip(inputs, labels, strict=True)]
        ordinals: list[int] = []
        counts: dict[bytes, int] = {}
        for digest in digests:
            ordinals.append(counts.get(digest, 0))
            counts[digest] = ordinals[-1] + 1
        order = sorted(range(len(digests)), key=lambda i: (digests[i], -ordinals[i]))
        self._set(range(len(order)), inputs[order], labels[order], [digests[i] for i in order])
        self._ids = [_with_ordinal(digests[i], ordinals[i]) for i in order]
        self._handles = [handles[i] for i in order] if handles else []

    def _set(self, positions: Positions, x: Array, y: NDArray[np.int64], digests: list[bytes]) -> None:
        self._positions, self._x, self._y, self._digests = positions, x, y, digests

    @property
    def positions(self) -> Positions:
        """The positions of its samples."""
        return self._positions

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        """Return keyed hashes of the ids at these positions."""
        heads = b"".join(self._ids[i][:8] for i in self._indices(positions).tolist())
        return scatter(keyed_int(key, "id"), np.frombuffer(heads, dtype="<i8"))

    def names(self, positions: Positions) -> bytes:
        """Return bytes that are equal exactly for equal sets of ids."""
        return pack(b"".join(sorted(self._ids[i] for i in self._indices(positions).tolist())))

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        """Return the classes of the samples at these positions."""
        return self._y[self._indices(positions)]

    def arrays(self, positions: Positions) -> tuple[Array, NDArray[np.int64]]:
        """Return inputs and labels of the samples at these positions."""
        indices = self._indices(positions)
        return self._x[indices], self._y[indices]

    def twins(self, positions: Positions) -> list[bytes]:
        """Return a digest for each position, equal for identical samples."""
        return [self._digests[i] for i in self._indices(positions).tolist()]

    def keeping(self, positions: Positions) -> "ArrayUpload":
        """Return the upload with these samples only, as copies, so that the memory of the others is freed."""
        if len(positions) == len(self._positions):
            return self
        indices = self._indices(positions)
        return self._taking(indices, positions)

    def with_inputs(self, convert: Callable[[Array], Array]) -> "ArrayUpload":
        """Return the same samples with converted inputs; their ids follow from these."""
        return ArrayUpload(self.user, self.round, convert(self._x), self._y, self._handles)

    def shuffled(self, permutation: NDArray[np.int64]) -> "ArrayUpload":
        """Return the same samples with permuted positions, for a device whose positions must reveal nothing.

        Identical samples keep their order: the one with the highest ordinal has the lowest position. Ids do not change,
        nor do training order, shards and identities, which follow from them.
        """
        order = [int(i) for i in permutation]
        places: dict[bytes, list[int]] = {}
        for place, index in enumerate(order):
            places.setdefault(self._digests[index], []).append(place)
        for identical in places.values():
            if len(identical) > 1:
                for place, index in zip(identical, sorted(order[place] for place in identical), strict=True):
                    order[place] = index
        return self._taking(np.array(order, dtype=np.int64), range(len(order)))

    def _taking(self, indices: NDArray[np.int64], positions: Positions) -> "ArrayUpload":
        rows = indices.tolist()
        digests, ids = [self._digests[i] for i in rows], [self._ids[i] for i in rows]
        handles = [self._handles[i] for i in rows] if self._handles else []
        return ArrayUpload.restored(
            self.user, self.round, positions, self._x[indices], self._y[indices], digests, ids, handles
        )

    @classmethod
    def unnamed(cls, user: str, x: ArrayLike, y: ArrayLike) -> "ArrayUpload":
        """Return an upload without ids, which take long to compute: it can be checked, but not learned from."""
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
        """Return an upload whose ids were computed before.

        Parameters
        ----------
        user, round_
            Whose samples they are, and of which round.
        positions
            Their positions, ascending.
        x, y
            Inputs and labels, in the order of the positions; not copied.
        digests, ids, handles
            As `rows` and `handles` return them.
        """
        upload = object.__new__(cls)
        upload.user, upload.round, upload._ids, upload._handles = user, round_, ids, handles or []
        upload._set(positions, x, y, digests)
        return upload

    @classmethod
    def joined(cls, parts: Sequence["ArrayUpload"]) -> "ArrayUpload":
        """Return the union of several parts of one upload."""
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
        """Return inputs, labels, digests and ids, in the order of the positions."""
        return self._x, self._y, self._digests, self._ids

    @property
    def handles(self) -> list[bytes]:
        """The samples' handles, in the order of the positions; empty if they have none."""
        return self._handles

    def _indices(self, positions: Positions) -> NDArray[np.int64]:
        array = pos.array(positions)
        if isinstance(self._positions, range):
            return np.asarray(array - self._positions.start)
        return np.asarray(np.searchsorted(self._positions, array), dtype=np.int64)


class TraceData:
    """An upload of a trace with inputs and labels; ids are (user, round, position), as in the trace.

    Parameters
    ----------
    upload
        The upload of the trace.
    x, y
        Inputs and labels of its samples.

    Raises
    ------
    InputError
        If there are not as many as in the trace, or they are not valid.

    Examples
    --------
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
        """Whose samples they are."""
        return self._upload.user

    @property
    def round(self) -> int:
        """The round in which they were uploaded."""
        return self._upload.round

    @property
    def positions(self) -> Positions:
        """The positions of its samples."""
        return self._upload.positions

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        """Return keyed hashes of the ids at these positions."""
        return self._upload.hashes(key, positions)

    def names(self, positions: Positions) -> bytes:
        """Return bytes that are equal exactly for equal sets of ids."""
        return self._upload.names(positions)

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        """Return the classes of the samples at these positions."""
        return self._y[self._upload.indices(positions)]

    def arrays(self, positions: Positions) -> tuple[Array, NDArray[np.int64]]:
        """Return inputs and labels of the samples at these positions."""
        indices = self._upload.indices(positions)
        return self._x[indices], self._y[indices]

    def given_shards(self) -> int | NDArray[np.int64]:
        """Return the shard that the trace names, for the whole upload or for each sample."""
        return self._upload.given_shards()

    def twins(self, positions: Positions) -> tuple[bytes, ...]:
        """Return nothing: no two samples of a trace are identical."""
        return ()

    def with_inputs(self, convert: Callable[[Array], Array]) -> "TraceData":
        """Return the same samples with converted inputs."""
        x, y = self.arrays(self.positions)
        return TraceData(self._upload, convert(x), y)

    def keeping(self, positions: Positions) -> "TraceData":
        """Return the upload with these samples only."""
        return TraceData(self._upload.keeping(positions), *self.arrays(positions))


def checked(user: str, x: ArrayLike, y: ArrayLike, *, copy: bool = True) -> tuple[Array, NDArray[np.int64]]:
    """Return inputs and labels as arrays, after checking them.

    Parameters
    ----------
    user
        Whose they are, for messages.
    x, y
        Inputs and labels, one row a sample.
    copy
        Whether to copy the inputs, so that later changes of the caller's array change no replay.

    Raises
    ------
    InputError
        If they do not fit together, are empty, are no numbers or not finite, or a label is negative or too large.
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
    if labels.max() > np.iinfo(np.int64).max:  # of uint64
        raise InputError(f"labels {whose} are below 2^63, not {labels.max()} (row {int(labels.argmax())})")
    return inputs, labels.astype(np.int64)


def _digest(user: str, round_: int, x: Array, label: int) -> bytes:
    """Return the digest of `pack(user, round_, dtype, shape, bytes of x, label)`.

    No copy of x is made, which would stay behind in freed memory.
    """
    sha256 = hashlib.sha256(pack(user, round_, x.dtype.str, str(x.shape)))
    sha256.update(b"b%d:" % x.nbytes)
    sha256.update(raw(x))
    sha256.update(pack(label))
    return sha256.digest()[:16]


def raw(x: Array) -> memoryview:
    """Return the bytes of an array in the order of its elements: a view if it is contiguous, else a copy.

    >>> raw(np.array([[1, 2], [3, 4]], dtype=np.uint8).T).tolist()
    [1, 3, 2, 4]
    """
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8).data


def _with_ordinal(digest: bytes, ordinal: int) -> bytes:
    return hashlib.sha256(digest + ordinal.to_bytes(8, "big")).digest()[:16]
