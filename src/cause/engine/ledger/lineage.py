"""A shard's segments, in the order in which they are trained."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

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
    def manifest(self) -> bytes:
        """Digest of the ids of all its samples, independent of the order of uploads."""
        if self._manifest is None:
            self._manifest = digest(*(self.piece_digest(user) for user in self._pieces))
        return self._manifest


class Lineage:
    """The segments of one shard that have retained samples, with running totals of the samples.

    A deletion recomputes the totals after it, which costs no more than the replay that follows.
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._at: dict[SegmentKey, int] = {}
        self._totals = [0]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __contains__(self, key: object) -> bool:
        return key in self._at

    def __getitem__(self, key: SegmentKey) -> Segment:
        return self._segments[self._at[key]]

    @property
    def samples(self) -> int:
        """The number of retained samples of the shard."""
        return self._totals[-1]

    @property
    def last(self) -> SegmentKey | None:
        """The key of the newest segment; None if there is none."""
        return self._segments[-1].key if self._segments else None

    def before(self, key: SegmentKey) -> Sequence[Segment]:
        """Return the segments before one."""
        return self._segments[: self._at[key]]

    def after(self, key: SegmentKey | None) -> Sequence[Segment]:
        """Return the segments after one; all segments for None."""
        return self._segments[0 if key is None else self._at[key] + 1 :]

    def samples_upto(self, key: SegmentKey | None) -> int:
        """Return the number of retained samples in the segments up to and including one; 0 for None."""
        return 0 if key is None else self._totals[self._at[key] + 1]

    def append(self, segment: Segment) -> None:
        """Add a segment after the last one."""
        self._at[segment.key] = len(self._segments)
        self._segments.append(segment)
        self._totals.append(self._totals[-1] + segment.count)

    def put(self, segment: Segment) -> None:
        """Update the totals after samples were added to a segment; insert the segment if it is not there."""
        if segment.key in self:
            self.recount(segment.key)
            return
        start = sum(earlier.key < segment.key for earlier in self._segments)
        for later in (segment, *self._cut(start)):
            self.append(later)

    def recount(self, key: SegmentKey) -> None:
        """Update the totals after deletions in a segment or after it; remove empty segments."""
        start = self._at[key]
        counts = [segment.count for segment in self._segments[start:]]
        if all(counts):  # no segment moves
            self._totals[start:] = accumulate(counts, initial=self._totals[start])
            return
        for segment in self._cut(start):
            if segment.count:
                self.append(segment)

    def _cut(self, start: int) -> list[Segment]:
        """Remove the segments from an index on, and return them."""
        removed = self._segments[start:]
        del self._segments[start:], self._totals[start + 1 :]
        for segment in removed:
            del self._at[segment.key]
        return removed
