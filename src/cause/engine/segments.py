"""Cuts the uploads of a round into segments: shards as the partitioner assigned them, slices by a keyed hash."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cause.common import positions as pos
from cause.common.positions import Positions
from cause.engine.partition import Assignment
from cause.engine.samples import Piece, SegmentKey, Upload
from cause.errors import InputError


@dataclass(frozen=True)
class Segmenting:
    """Cuts rounds into segments. A sample's slice follows from its id alone, so a deletion moves no other sample.

    Examples
    --------
    >>> from cause.engine.samples import Part, TraceUpload
    >>> arrived = {"u7": TraceUpload("u7", 1, (Part(31),))}
    >>> segments = Segmenting(shards=2, slices=1, key=b"").segments(1, arrived, {"u7": 1})
    >>> {str(segment): [len(positions) for _, positions in pieces] for segment, pieces in segments.items()}
    {'(1,1)': [31]}
    """

    shards: int
    """The number of shards."""
    slices: int
    """The number of slices of a round."""
    key: bytes
    """The key of the hashes that choose the slices."""

    def segments(
        self, t: int, arrived: Mapping[str, Upload], assigned: Mapping[str, Assignment]
    ) -> dict[SegmentKey, list[Piece]]:
        """Return the segments of a round with their samples.

        Parameters
        ----------
        t
            The number of the round.
        arrived
            The uploads by user.
        assigned
            The partitioner's shard for each upload, or for each of its samples.

        Raises
        ------
        InputError
            If a shard does not exist.
        """
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
        """Return positions of an upload by slice."""
        if self.slices == 1:
            return ((0, positions),)
        return pos.split(positions, upload.hashes(self.key, positions) % self.slices).items()


def renumbered(assigned: Mapping[str, Assignment], active: Sequence[int]) -> Mapping[str, Assignment]:
    """Return an assignment to the shards 0, 1, 2 … with the numbers of the active shards instead.

    >>> renumbered({"u7": 1, "u8": np.array([0, 1])}, [2, 3])
    {'u7': 3, 'u8': array([2, 3])}
    """
    if active == range(len(active)):
        return assigned
    numbers = np.array(active)
    return {user: active[shards] if isinstance(shards, int) else numbers[shards] for user, shards in assigned.items()}
