"""What arrived in a round becomes segments: shard by shard as the partition says, slice by slice by a keyed hash."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cause.common import positions as pos
from cause.common.positions import Positions
from cause.engine.partition import Assignment
from cause.engine.samples import Piece, SegmentKey, Upload
from cause.errors import InputError


@dataclass(frozen=True)
class Segmenting:
    """How a device cuts rounds into segments. A deletion moves nobody: a slice follows from the sample's id alone.

    >>> from cause.engine.samples import Part, TraceUpload
    >>> arrived = {"u7": TraceUpload("u7", 1, (Part(31),))}
    >>> found = Segmenting(shards=2, slices=1, key=b"").segments(1, arrived, {"u7": 1})
    >>> {str(segment): [len(positions) for _, positions in pieces] for segment, pieces in found.items()}
    {'(1,1)': [31]}
    """

    shards: int
    slices: int
    key: bytes

    def segments(
        self, t: int, arrived: Mapping[str, Upload], assigned: Mapping[str, Assignment]
    ) -> dict[SegmentKey, list[Piece]]:
        """The segments of a round, each with its pieces of uploads."""
        segments: dict[SegmentKey, list[Piece]] = {}
        for user, upload in arrived.items():
            by_shard = assigned[user]
            pieces: dict[int, Positions] = (
                {by_shard: upload.positions} if isinstance(by_shard, int) else pos.split(upload.positions, by_shard)
            )
            for shard, positions in pieces.items():
                if not 0 <= shard < self.shards:
                    raise InputError(f"user {user!r} was given shard {shard}, but there are {self.shards}")
                for slice_, part in self.sliced(upload, positions):
                    segments.setdefault(SegmentKey(shard, t, slice_), []).append(Piece(upload.keeping(part), part))
        return segments

    def sliced(self, upload: Upload, positions: Positions) -> Iterable[tuple[int, Positions]]:
        """Positions of an upload by slice."""
        if self.slices == 1:
            return ((0, positions),)
        return pos.split(positions, upload.hashes(self.key, positions) % self.slices).items()
