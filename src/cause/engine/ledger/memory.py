"""The ledger of a device without a home: everything is in the process's memory."""

from collections.abc import Iterable, Mapping, Sequence

from cause.common import positions as pos
from cause.common.positions import Positions
from cause.engine.ledger.base import Quarantined, Selection
from cause.engine.ledger.lineage import Lineage, Segment
from cause.engine.samples import Piece, SegmentKey


class MemoryLedger:
    """A ledger in the process's memory. An upload of which nothing was deleted needs no more memory than one sample.

    Examples
    --------
    >>> from cause.engine.samples import Part, TraceUpload
    >>> ledger, upload = MemoryLedger(), TraceUpload("u7", 1, (Part(31),))
    >>> ledger.record(1, {SegmentKey(0, 1): [Piece(upload, range(31))]})
    >>> ledger.delete({("u7", 1): range(5)})
    >>> ledger.lineage(0).samples, ledger.pieces_of("u7", 1)
    (26, [(SegmentKey(shard=0, round=1, slice=0), range(5, 31))])
    """

    def __init__(self) -> None:
        self.lists_digests = True  # they are computed from the uploads in any case
        self._round = 0
        self._lineages: dict[int, Lineage] = {}
        self._uploads: dict[str, dict[int, list[SegmentKey]]] = {}
        self._aside: dict[SegmentKey, dict[str, tuple[Piece, str]]] = {}  # in quarantine, with the verdict

    @property
    def round(self) -> int:
        return self._round

    def placement(self, user: str) -> int | None:
        for round_ in reversed(self._uploads.get(user, {})):
            shards = {key.shard for key in self._uploads[user][round_] if user not in self._aside.get(key, {})}
            if shards:
                return shards.pop() if len(shards) == 1 else None
        return None

    def rounds_of(self, user: str) -> Sequence[int]:
        return list(self._uploads.get(user, ()))

    def names_like(self, user: str) -> Sequence[str]:
        return [user] if user in self._uploads else []

    def pieces_of(self, user: str, round_: int) -> list[tuple[SegmentKey, Positions]]:
        keys = self._uploads.get(user, {}).get(round_, [])
        return [(key, self._piece(key, user).positions) for key in keys]

    def held_pieces(self, user: str, round_: int) -> list[tuple[SegmentKey, Piece]]:
        return [(key, self._piece(key, user)) for key in self._uploads.get(user, {}).get(round_, [])]

    def _piece(self, key: SegmentKey, user: str) -> Piece:
        aside = self._aside.get(key, {}).get(user)
        return self._lineages[key.shard][key].piece(user) if aside is None else aside[0]

    def twins_of(self, user: str, round_: int) -> dict[int, bytes]:
        twins: dict[int, bytes] = {}
        for key in self._uploads.get(user, {}).get(round_, []):
            upload, positions = self._piece(key, user)
            twins |= zip(pos.array(positions).tolist(), upload.twins(positions), strict=False)
        return twins

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
        touched: set[SegmentKey] = set()
        for (user, round_), positions in selection.items():
            uploads, retained_in = self._uploads[user], []
            for key in uploads[round_]:
                if user in self._aside.get(key, {}):
                    retained_in += [key] if self._delete_quarantined(key, user, positions) else []
                    continue
                segment = self._lineages[key.shard][key]
                if len(pos.common(segment.positions(user), positions)):
                    segment.remove(user, positions)
                    touched.add(key)
                if len(segment.positions(user)):
                    retained_in.append(key)
            if retained_in:
                uploads[round_] = retained_in
            else:
                del uploads[round_]
            if not uploads:
                del self._uploads[user]
        self._recount(touched)

    def _recount(self, touched: Iterable[SegmentKey]) -> None:
        """Update the shards after deletions in these segments; remove empty shards."""
        for key in touched:
            lineage = self._lineages[key.shard]
            lineage.recount(key)
            if lineage.last is None:
                del self._lineages[key.shard]

    # Quarantine

    def quarantined(self) -> list[Quarantined]:
        return [
            Quarantined(user, key, len(piece.positions), verdict)
            for key, users in sorted(self._aside.items())
            for user, (piece, verdict) in sorted(users.items())
        ]

    def quarantine(self, key: SegmentKey, verdicts: Mapping[str, str]) -> None:
        segment = self._lineages[key.shard][key]
        for user, verdict in verdicts.items():
            piece = segment.piece(user)
            self._aside.setdefault(key, {})[user] = piece, verdict
            segment.remove(user, piece.positions)
        self._recount([key])

    def reinstate(self, first: SegmentKey) -> None:
        for key in sorted(key for key in self._aside if key.shard == first.shard and key >= first):
            lineage = self._lineages.setdefault(key.shard, Lineage())
            segment = lineage[key] if key in lineage else Segment(key, ())
            for piece, _ in self._aside.pop(key).values():
                segment.add(piece)
            lineage.put(segment)

    def _delete_quarantined(self, key: SegmentKey, user: str, positions: Positions) -> int:
        """Delete samples that are in quarantine; return how many of the user's are left in the segment."""
        (upload, held), verdict = self._aside[key][user]
        kept = pos.minus(held, positions)
        if len(kept):
            self._aside[key][user] = Piece(upload.keeping(kept), kept), verdict
        else:
            del self._aside[key][user]
            if not self._aside[key]:
                del self._aside[key]
        return len(kept)
