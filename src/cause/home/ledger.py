"""The records of a durable device: in memory as in a simulation, and in the home's tables."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cause.ledger import MemoryLedger
from cause.samples import Piece, SegmentKey

if TYPE_CHECKING:
    from cause.home.home import Home


class HomeLedger(MemoryLedger):
    """A round is recorded once its samples are on the disk, sealed and durable."""

    def __init__(self, home: "Home") -> None:
        super().__init__()
        self._home = home

    def record(self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]]) -> None:
        super().record(round_, self._home.store(round_, segments))

    def load(
        self,
        round_: int,
        rounds: Mapping[int, Mapping[SegmentKey, Sequence[Piece]]],
        trained: set[SegmentKey],
        digests: Mapping[SegmentKey, Mapping[str, bytes]],
    ) -> None:
        """Go on with what the tables hold."""
        self._lineages, self._uploads = {}, {}
        for each in sorted(rounds):
            super().record(each, rounds[each])
        for lineage in self._lineages.values():
            for segment in lineage:
                segment.trained = segment.key in trained
                segment.remember(digests.get(segment.key, {}))
        self._round = round_
