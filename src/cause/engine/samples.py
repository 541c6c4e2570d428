"""Uploads, segments and lessons: samples as the engine sees them, by user, round and position.

An upload has an id for each of its samples. The engine handles samples by position and never reads their contents;
every keyed hash, order and identity follows from the ids, so it does not depend on other uploads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cause.common import positions as pos
from cause.common.hashing import Hashes, keyed_int, pack, scatter
from cause.common.positions import Positions
from cause.errors import InputError


class Upload(Protocol):
    """The samples of one user of one round."""

    @property
    def user(self) -> str:
        """Whose samples they are."""

    @property
    def round(self) -> int:
        """The round in which they were uploaded."""

    @property
    def positions(self) -> Positions:
        """The positions of its samples."""

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        """Return keyed hashes of the ids at these positions."""

    def names(self, positions: Positions) -> bytes:
        """Return bytes that are equal exactly for equal sets of ids."""

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        """Return the classes of the samples at these positions."""

    def twins(self, positions: Positions) -> Sequence[bytes]:
        """Return a digest for each position, equal for identical samples; empty if no two are identical."""

    def keeping(self, positions: Positions) -> "Upload":
        """Return the upload with these samples only; it holds no data of the others."""


@runtime_checkable
class WithArrays(Protocol):
    """An upload that holds inputs and labels; that of a trace does not."""

    def arrays(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return inputs and labels of the samples at these positions."""


def arrays_of(upload: Upload, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return inputs and labels of an upload.

    Raises
    ------
    InputError
        If the upload holds none, as that of a trace.
    """
    if not isinstance(upload, WithArrays):
        raise InputError(f"the upload of user {upload.user!r} in round {upload.round} holds no inputs to learn from")
    return upload.arrays(positions)


class Piece(NamedTuple):
    """Some samples of one upload: those in one segment."""

    upload: Upload
    positions: Positions


class SegmentKey(NamedTuple):
    """The key of a segment and of its sub-model: shard *s*, round *t*, slice."""

    shard: int
    round: int
    slice: int = 0

    def __str__(self) -> str:
        return f"({self.shard},{self.round})" if not self.slice else f"({self.shard},{self.round},{self.slice})"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a sub-model is trained on: a segment's retained samples, and rehearsed ones of earlier segments."""

    segment: SegmentKey
    pieces: tuple[Piece, ...]
    count: int
    """The number of samples in `pieces`."""
    rehearsed: tuple[Piece, ...] = ()

    @property
    def total(self) -> int:
        """The number of samples, rehearsed ones included."""
        return self.count + sum(len(piece.positions) for piece in self.rehearsed)


@dataclass(frozen=True, slots=True)
class Part:
    """Samples that were uploaded together: one `add` line of a trace."""

    count: int
    labels: tuple[tuple[int, int], ...] | None = None  # (class, how many), in the order of the samples
    shard: int | None = None


@dataclass(frozen=True, slots=True)
class TraceUpload:
    """An upload of a trace: samples have ids (user, round, position), but no data.

    Examples
    --------
    >>> upload = TraceUpload("u7", 1, (Part(3, ((3, 2), (5, 1))), Part(2, ((0, 2),))))
    >>> len(upload.positions), upload.labels(upload.positions)
    (5, array([3, 3, 5, 0, 0]))
    >>> upload.keeping(range(2, 4)).parts
    (Part(count=1, labels=((5, 1),), shard=None), Part(count=1, labels=((0, 1),), shard=None))
    """

    user: str
    round: int
    parts: tuple[Part, ...]
    kept: Positions | None = None  # the positions that the parts' samples have, if not 0, 1, 2 …

    @property
    def positions(self) -> Positions:
        """The positions of its samples."""
        return range(sum(part.count for part in self.parts)) if self.kept is None else self.kept

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        """Return keyed hashes of the ids at these positions."""
        return scatter(keyed_int(key, self.user, self.round), pos.array(positions))

    def names(self, positions: Positions) -> bytes:
        """Return bytes that are equal exactly for equal sets of ids."""
        return pack(self.user, self.round, pos.runs(positions))

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        """Return the classes of the samples; an `InputError` if the trace names none."""
        runs: list[tuple[int, int]] = []
        for part in self.parts:
            if part.labels is None:
                raise InputError(f"the samples of user {self.user!r} in round {self.round} have no labels")
            runs.extend(part.labels)
        return self._along(runs, positions)

    def given_shards(self) -> int | NDArray[np.int64]:
        """Return the shard that the trace names, for the whole upload or for each sample.

        Raises
        ------
        InputError
            If the trace names none.
        """
        runs = []
        for part in self.parts:
            if part.shard is None:
                raise InputError(f"the trace names no shard for user {self.user!r} in round {self.round}")
            runs.append((part.shard, part.count))
        if len({shard for shard, _ in runs}) == 1:
            return runs[0][0]
        return self._along(runs, self.positions)

    def twins(self, positions: Positions) -> Sequence[bytes]:
        """Return nothing: no two samples of a trace are identical."""
        return ()

    def keeping(self, positions: Positions) -> "TraceUpload":
        """Return the upload with these samples only."""
        if len(positions) == len(self.positions):
            return self
        parts, start = [], 0
        for part in self.parts:
            ends = [start, start + part.count]
            if part.labels is not None:
                ends = list(accumulate((count for _, count in part.labels), initial=start))
            upto = pos.count_below(positions, [self._position(end) for end in ends])
            counts = [b - a for a, b in pairwise(upto)]
            if any(counts):
                runs = None if part.labels is None else zip((label for label, _ in part.labels), counts, strict=True)
                labels = None if runs is None else tuple((label, count) for label, count in runs if count)
                parts.append(Part(sum(counts), labels, part.shard))
            start += part.count
        return TraceUpload(self.user, self.round, tuple(parts), positions)

    def _position(self, index: int) -> int:
        """Return the position of a sample by its index; past the last one, the next higher position."""
        held = self.positions
        return int(held[index]) if index < len(held) else int(held[-1]) + 1

    def indices(self, positions: Positions) -> NDArray[np.int64]:
        """Return the indices of these positions among the upload's."""
        array = pos.array(positions)
        if isinstance(self.positions, range):
            return np.asarray(array - self.positions.start)
        return np.asarray(np.searchsorted(self.positions, array), dtype=np.int64)

    def _along(self, runs: Sequence[tuple[int, int]], positions: Positions) -> NDArray[np.int64]:
        return _spread(runs, self.indices(positions))


def _spread(runs: Sequence[tuple[int, int]], indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the value at each index of a sequence of runs (value, count)."""
    values, counts = (np.array(column, dtype=np.int64) for column in zip(*runs, strict=True))
    return np.asarray(values[np.searchsorted(np.cumsum(counts), indices, side="right")])
