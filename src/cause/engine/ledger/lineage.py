"""A shard's history: its segments, in the order in which they are trained."""

from collections.abc import Iterator, Sequence

from cause.common import positions as pos
from cause.common.hashing import digest
from cause.common.positions import Positions
from cause.engine.samples import Piece, SegmentKey


class Segment:
    """The retained samples that a shard received in one round (or in one slice of it)."""

    __slots__ = ("_digests", "_manifest", "_pieces", "count", "key", "trained")

    def __init__(self, key: SegmentKey, pieces: Sequence[Piece]) -> None:
        self.key = key
        self.trained = False  # ever: training it again is then a retraining
        self._pieces = {piece.upload.user: piece for piece in sorted(pieces, key=lambda piece: piece.upload.user)}
        self.count = sum(len(piece.positions) for piece in pieces)
        self._digests: dict[str, bytes] = {}  # of each piece; a deletion renews only its own
        self._manifest: bytes | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Its samples, by user."""
        return tuple(self._pieces.values())

    def piece(self, user: str) -> Piece:
        """What it holds of a user's upload, which must be something."""
        return self._pieces[user]

    def positions(self, user: str) -> Positions:
        """What it holds of a user's upload."""
        piece = self._pieces.get(user)
        return piece.positions if piece else range(0)

    def remove(self, user: str, doomed: Positions) -> None:
        """Forget some samples of a user."""
        piece = self._pieces[user]
        kept = pos.minus(piece.positions, doomed)
        self.count -= len(piece.positions) - len(kept)
        self._manifest = None
        self._digests.pop(user, None)
        if len(kept):
            self._pieces[user] = Piece(piece.upload.keeping(kept), kept)
        else:
            del self._pieces[user]

    def add(self, piece: Piece) -> None:
        """Take samples of a user back in."""
        pieces = {**self._pieces, piece.upload.user: piece}
        self._pieces = dict(sorted(pieces.items()))
        self.count += len(piece.positions)
        self._manifest = None
        self._digests.pop(piece.upload.user, None)

    def piece_digest(self, user: str) -> bytes:
        """Digest of the ids of what it holds of a user's upload."""
        if user not in self._digests:
            upload, positions = self._pieces[user]
            self._digests[user] = digest(upload.names(positions))
        return self._digests[user]

    @property
    def manifest(self) -> bytes:
        """Digest of the ids of its retained samples, whatever the order in which they came."""
        if self._manifest is None:
            self._manifest = digest(*(self.piece_digest(user) for user in self._pieces))
        return self._manifest


class Lineage:
    """The segments of one shard that retain anything, and how many samples they retain.

    Sums over stretches of it are differences of running totals. A deletion recomputes the totals after it, which
    costs no more than the replay that follows it.
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
        """Retained samples of the shard."""
        return self._totals[-1]

    @property
    def last(self) -> SegmentKey | None:
        """The newest segment."""
        return self._segments[-1].key if self._segments else None

    def before(self, key: SegmentKey) -> Sequence[Segment]:
        """The segments before one."""
        return self._segments[: self._at[key]]

    def after(self, key: SegmentKey | None) -> Sequence[Segment]:
        """The segments after one, or all of them."""
        return self._segments[0 if key is None else self._at[key] + 1 :]

    def samples_upto(self, key: SegmentKey | None) -> int:
        """Retained samples of the segments up to one, inclusive."""
        return 0 if key is None else self._totals[self._at[key] + 1]

    def append(self, segment: Segment) -> None:
        """Add the next segment."""
        self._at[segment.key] = len(self._segments)
        self._segments.append(segment)
        self._totals.append(self._totals[-1] + segment.count)

    def put(self, segment: Segment) -> None:
        """Bring it up to date after a segment got samples back: one that had left is here again, in its place."""
        if segment.key not in self:
            after = [each for each in self._segments if each.key > segment.key]
            start = len(self._segments) - len(after)
            del self._segments[start:], self._totals[start + 1 :]
            for each in after:
                del self._at[each.key]
            for each in (segment, *after):
                self.append(each)
        else:
            self.recount(segment.key)

    def recount(self, key: SegmentKey) -> None:
        """Bring it up to date after deletions in or after a segment; emptied segments leave."""
        start = self._at[key]
        touched = self._segments[start:]
        del self._segments[start:], self._totals[start + 1 :]
        for segment in touched:
            del self._at[segment.key]
        for segment in touched:
            if segment.count:
                self.append(segment)
