"""What users upload: samples, known to the engine only by who, when and which.

An upload knows the ids of its samples. The engine handles them by position and never asks what is in them; every
keyed hash, order and identity comes from the ids, so that it depends on nothing else that was ever uploaded.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cause import positions as pos
from cause.errors import InputError
from cause.keyed import Hashes, keyed_int, pack, scatter
from cause.positions import Positions


class Upload(Protocol):
    """The samples of one user of one round."""

    @property
    def user(self) -> str: ...

    @property
    def round(self) -> int: ...

    @property
    def positions(self) -> Positions:
        """The positions uploaded."""

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        """Keyed hashes of the ids at these positions."""

    def names(self, positions: Positions) -> bytes:
        """Bytes that name these samples by their ids: equal exactly for equal sets."""

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        """The class of each sample."""


class Piece(NamedTuple):
    """Some samples of one upload: its share of a segment."""

    upload: Upload
    positions: Positions


class SegmentKey(NamedTuple):
    """Which segment, and so which sub-model: shard *s*, round *t*, slice."""

    shard: int
    round: int
    slice: int = 0

    def __str__(self) -> str:
        return f"({self.shard},{self.round})" if not self.slice else f"({self.shard},{self.round},{self.slice})"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a sub-model is trained on: a segment's retained samples, and earlier ones of the shard once more."""

    segment: SegmentKey
    pieces: Collection[Piece]
    count: int
    rehearsed: Collection[Piece] = ()

    @property
    def total(self) -> int:
        """Samples trained on, rehearsed ones included."""
        return self.count + sum(len(piece.positions) for piece in self.rehearsed)


@dataclass(frozen=True, slots=True)
class Part:
    """A run of positions that arrived together: one `add` line of a trace."""

    count: int
    labels: tuple[tuple[int, int], ...] | None = None  # (class, how many), ascending
    shard: int | None = None


@dataclass(frozen=True, slots=True)
class TraceUpload:
    """An upload of a trace: a sample is (user, round, position), and nothing is stored for it.

    >>> upload = TraceUpload("u7", 1, (Part(3, ((3, 2), (5, 1))), Part(2, ((0, 2),))))
    >>> len(upload.positions), upload.labels(upload.positions)
    (5, array([3, 3, 5, 0, 0]))
    """

    user: str
    round: int
    parts: tuple[Part, ...]
    kept: Positions | None = None  # a clean room receives some positions only

    @property
    def positions(self) -> Positions:
        whole = range(sum(part.count for part in self.parts))
        return whole if self.kept is None else self.kept

    def hashes(self, key: bytes, positions: Positions) -> Hashes:
        return scatter(keyed_int(key, self.user, self.round), pos.array(positions))

    def names(self, positions: Positions) -> bytes:
        return pack(self.user, self.round, pos.runs(positions))

    def labels(self, positions: Positions) -> NDArray[np.int64]:
        runs: list[tuple[int, int]] = []
        for part in self.parts:
            if part.labels is None:
                raise InputError(f"the samples of user {self.user!r} in round {self.round} have no labels")
            runs.extend(part.labels)
        return _along(runs, positions)

    def given_shards(self) -> int | NDArray[np.int64]:
        """The shard that the trace names, for the whole upload or for each sample."""
        runs = []
        for part in self.parts:
            if part.shard is None:
                raise InputError(f"the trace names no shard for user {self.user!r} in round {self.round}")
            runs.append((part.shard, part.count))
        if len({shard for shard, _ in runs}) == 1:
            return runs[0][0]
        return _along(runs, self.positions)


def _along(runs: list[tuple[int, int]], positions: Positions) -> NDArray[np.int64]:
    values, counts = (np.array(column, dtype=np.int64) for column in zip(*runs, strict=True))
    return np.asarray(values[np.searchsorted(np.cumsum(counts), pos.array(positions), side="right")])
