"""A shard's segments, in the order in which they are trained."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from cause.common import positions as pos
from cause.common.hashing import digest
from cause.common.positions import Positions
from cause.engine.samples import Piece, SegmentKey


class Segment:
    """The retained samples that a shard received in one round (or in one slice of it).

    Parameters
    ----------
    key
        Shard, round and slice.
    pieces
        Its samples; at most one piece for each user.
    """

    __slots__ = ("_digests", "_manifest", "_pieces", "count", "key", "trained")

    def __init__(self, key: SegmentKey, pieces: Sequence[Piece]) -> None:
        self.key = key
        self.trained = False  # if it was trained once, training it again counts as retraining
        self._pieces = {piece.upload.user: piece for piece in sorted(pieces, key=lambda piece: piece.upload.user)}
        self.count = sum(len(piece.positions) for piece in pieces)
        self._digests: dict[str, bytes] = {}  # by user, so that a deletion recomputes only one
        self._manifest: bytes | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Its samples, sorted by user."""
        return tuple(self._pieces.values())

    def piece(self, user: str) -> Piece:
        """Return the samples of a user; a `KeyError` if there are none."""
        return self._pieces[user]

    def positions(self, user: str) -> Positions:
        """Return the positions of a user's samples; empty if there are none."""
        piece = self._pieces.get(user)
        return piece.positions if piece else range(0)

    def remove(self, user: str, positions: Positions) -> None:
        """Delete samples of a user."""
        piece = self._pieces[user]
        kept = pos.minus(piece.positions, positions)
        self.count -= len(piece.positions) - len(kept)
        self._manifest = None
        self._digests.pop(user, None)
        if len(kept):
            self._pieces[user] = Piece(piece.upload.keeping(kept), kept)
        else:
            del self._pieces[user]

    def add(self, piece: Piece) -> None:
        """Add samples of a user that has none here."""
        pieces = {**self._pieces, piece.upload.user: piece}
        self._pieces = dict(sorted(pieces.items()))
        self.count += len(piece.positions)
        self._manifest = None
        self._digests.pop(piece.upload.user, None)

    def piece_digest(self, user: str) -> bytes:
        """Return the digest of the ids of a user's samples."""
        if user not in self._digests:
            upload, positions = self._pieces[user]
            self._digests[user] = digest(upload.names(positions))
        return self._digests[user]

    @property
    def piece_digests(self) -> Sequence[bytes]:
        """The digests of the ids of each user's samples, sorted by user."""
        return [self.piece_digest(user) for user in self._pieces]

    @property
    def manifest(self) -> bytes:
        """Digest of the ids of all its samples, independent of the order of uploads."""
        if self._manifest is None:
            self._manifest = digest(*self.piece_digests)
        return self._manifest


class Lineage:
    """The segments of one shard that have retained samples, in order.

    A deletion takes a time that grows with the logarithm of the number of segments. Running totals of the samples are
    kept up to the last segment that was asked for and not changed since.
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._counts: dict[SegmentKey, int] = {}  # the samples of each segment, as they are in the total
        self._samples = 0
        self._totals = [0]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __contains__(self, key: object) -> bool:
        return key in self._counts

    def __getitem__(self, key: SegmentKey) -> Segment:
        return self._segments[self._index(key)]

    def _index(self, key: SegmentKey) -> int:
        if key not in self._counts:
            raise KeyError(key)
        return bisect_left(self._segments, key, key=_key)

    @property
    def samples(self) -> int:
        """The number of retained samples of the shard."""
        return self._samples

    @property
    def last(self) -> SegmentKey | None:
        """The key of the newest segment; None if there is none."""
        return self._segments[-1].key if self._segments else None

    def newest_upto(self, key: SegmentKey | None) -> SegmentKey | None:
        """Return the key of the newest segment that is not after this key; None if there is none, or for None."""
        end = 0 if key is None else bisect_right(self._segments, key, key=_key)
        return self._segments[end - 1].key if end else None

    def before(self, key: SegmentKey) -> Sequence[Segment]:
        """Return the segments before one."""
        return self._segments[: self._index(key)]

    def after(self, key: SegmentKey | None) -> Sequence[Segment]:
        """Return the segments after one; all segments for None."""
        return self._segments[0 if key is None else self._index(key) + 1 :]

    def samples_upto(self, key: SegmentKey | None) -> int:
        """Return the number of retained samples in the segments up to and including one; 0 for None."""
        end, totals = 0 if key is None else self._index(key) + 1, self._totals
        while len(totals) <= end:
            totals.append(totals[-1] + self._segments[len(totals) - 1].count)
        return totals[end]

    def append(self, segment: Segment) -> None:
        """Add a segment after the last one."""
        self._segments.append(segment)
        self._counts[segment.key] = segment.count
        self._samples += segment.count

    def put(self, segment: Segment) -> None:
        """Update the totals after samples were added to a segment; insert the segment if it is not there."""
        if segment.key not in self:
            self._segments.insert(bisect_left(self._segments, segment.key, key=_key), segment)
            self._counts[segment.key] = 0
        self.recount(segment.key)

    def recount(self, key: SegmentKey) -> None:
        """Update the totals after a segment was changed; remove it if it is empty."""
        at = self._index(key)
        count = self._segments[at].count
        self._samples += count - self._counts[key]
        self._counts[key] = count
        del self._totals[at + 1 :]
        if not count:
            del self._segments[at], self._counts[key]


def _key(segment: Segment) -> SegmentKey:
    return segment.key
