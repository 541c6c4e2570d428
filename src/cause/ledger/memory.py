"""The ledger of a simulation: everything in the process."""

from collections.abc import Mapping, Sequence

from cause import positions as pos
from cause.ledger.base import Selection
from cause.ledger.lineage import Lineage, Segment
from cause.positions import Positions
from cause.samples import Piece, SegmentKey


class MemoryLedger:
    """Records kept in the process. An upload that stays whole costs as much as one sample of it.

    Examples
    --------
    >>> from cause.samples import Part, TraceUpload
    >>> ledger, upload = MemoryLedger(), TraceUpload("u7", 1, (Part(31),))
    >>> ledger.record(1, {SegmentKey(0, 1): [Piece(upload, range(31))]})
    >>> ledger.delete({("u7", 1): range(5)})
    >>> ledger.lineage(0).samples, ledger.pieces_of("u7", 1)
    (26, [(SegmentKey(shard=0, round=1, slice=0), range(5, 31))])
    """

    def __init__(self) -> None:
        self._round = 0
        self._lineages: dict[int, Lineage] = {}
        self._uploads: dict[str, dict[int, list[SegmentKey]]] = {}

    @property
    def round(self) -> int:
        return self._round

    def placement(self, user: str) -> int | None:
        uploads = self._uploads.get(user)
        if not uploads:
            return None
        shards = {key.shard for key in uploads[next(reversed(uploads))]}
        return shards.pop() if len(shards) == 1 else None

    def rounds_of(self, user: str) -> Sequence[int]:
        return list(self._uploads.get(user, ()))

    def names_like(self, user: str) -> Sequence[str]:
        return [user] if user in self._uploads else []

    def pieces_of(self, user: str, round_: int) -> list[tuple[SegmentKey, Positions]]:
        keys = self._uploads.get(user, {}).get(round_, [])
        return [(key, self._lineages[key.shard][key].positions(user)) for key in keys]

    def twins_of(self, user: str, round_: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for key in self._uploads.get(user, {}).get(round_, []):
            upload, positions = self._lineages[key.shard][key].piece(user)
            found |= zip(pos.array(positions).tolist(), upload.twins(positions), strict=False)
        return found

    def handles_of(self, user: str, round_: int) -> dict[str, int]:
        return {}

    def shards(self) -> Sequence[int]:
        return sorted(self._lineages)

    def lineage(self, shard: int) -> Lineage:
        return self._lineages.get(shard, Lineage())

    def record(self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]]) -> None:
        self._round = round_
        for key in sorted(segments):
            self._lineages.setdefault(key.shard, Lineage()).append(Segment(key, segments[key]))
            for piece in segments[key]:
                self._uploads.setdefault(piece.upload.user, {}).setdefault(round_, []).append(key)

    def delete(self, selection: Selection) -> None:
        touched: dict[int, SegmentKey] = {}
        for (user, round_), doomed in selection.items():
            uploads, left = self._uploads[user], []
            for key in uploads[round_]:
                segment = self._lineages[key.shard][key]
                if len(pos.common(segment.positions(user), doomed)):
                    segment.remove(user, doomed)
                    touched[key.shard] = min(key, touched.get(key.shard, key))
                if len(segment.positions(user)):
                    left.append(key)
            if left:
                uploads[round_] = left
            else:
                del uploads[round_]
            if not uploads:
                del self._uploads[user]
        for shard, key in touched.items():
            self._lineages[shard].recount(key)
            if not self._lineages[shard].samples:
                del self._lineages[shard]
