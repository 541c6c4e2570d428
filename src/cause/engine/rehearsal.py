"""Rehearsal: earlier samples of the same shard that a segment trains on once more."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.common import positions as pos
from cause.engine.ledger import Lineage, Segment
from cause.engine.samples import Lesson, Piece, SegmentKey, Upload


def rehearsed_count(share: float, samples: int, earlier: int) -> int:
    """Return the number of rehearsed samples: r·n rounded down, or the number of earlier ones if that is less.

    >>> rehearsed_count(0.5, 31, 100), rehearsed_count(0.5, 31, 7)
    (15, 7)
    """
    return min(math.floor(share * samples + 1e-9), earlier)


@dataclass(frozen=True)
class Rehearsal:
    """Adds r·n earlier retained samples of the shard, those of lowest keyed hash, to a segment of n samples.

    A deletion changes the rehearsed samples only of later segments of the shard, which are replayed anyway.
    """

    share: float
    """r, the rehearsed samples for each sample of a segment; 0 for none."""
    key: bytes
    """The key of the hashes."""

    def lessons(self, lineage: Lineage, after: SegmentKey | None) -> Iterator[tuple[Segment, Lesson]]:
        """Yield the segments after one (None: all), each with its lesson."""
        segments = lineage.after(after)
        pool = self._pool(lineage, segments)
        earlier = lineage.samples_upto(after)
        for segment in segments:
            count = rehearsed_count(self.share, segment.count, earlier)
            rehearsed = pool.lowest(count) if count else ()
            yield segment, Lesson(segment.key, segment.pieces, segment.count, rehearsed)
            pool.add(segment)
            earlier += segment.count

    def _pool(self, lineage: Lineage, segments: Sequence[Segment]) -> "_Pool":
        most = max((segment.count for segment in segments), default=0)
        pool = _Pool(self.key, rehearsed_count(self.share, most, lineage.samples))
        for segment in lineage.before(segments[0].key) if segments and self.share else ():
            pool.add(segment)
        return pool


class _Pool:
    """The earlier samples of lowest hash, as many as any segment rehearses."""

    def __init__(self, key: bytes, most: int) -> None:
        self._key, self._most = key, most
        self._uploads: list[Upload] = []
        empty: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._hashes, self._owners, self._positions = empty.astype(np.uint64), empty, empty

    def add(self, segment: Segment) -> None:
        """Add the samples of a segment; keep those of lowest hash."""
        if not self._most:
            return
        hashes, owners, positions = [self._hashes], [self._owners], [self._positions]
        for upload, held in segment.pieces:
            hashes.append(upload.hashes(self._key, held))
            owners.append(np.full(len(held), len(self._uploads), dtype=np.int64))
            positions.append(pos.array(held))
            self._uploads.append(upload)
        merged = np.concatenate(hashes)
        order = np.argsort(merged, kind="stable")[: self._most]
        self._hashes = merged[order]
        self._owners, self._positions = np.concatenate(owners)[order], np.concatenate(positions)[order]

    def lowest(self, count: int) -> tuple[Piece, ...]:
        """Return the samples of lowest hash, as pieces sorted by user and round."""
        owners, positions = self._owners[:count], self._positions[:count]
        order = np.argsort(positions, kind="stable")
        parts = pos.split(positions[order], owners[order])
        pieces = [Piece(self._uploads[owner], held) for owner, held in parts.items()]
        return tuple(sorted(pieces, key=lambda piece: (piece.upload.user, piece.upload.round)))
