"""The seam of all ledgers: who uploaded what, in which segment it lies, and what is still retained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cause.common.positions import Positions
from cause.engine.ledger.lineage import Lineage
from cause.engine.samples import Piece, SegmentKey

Selection = Mapping[tuple[str, int], Positions]
"""Samples to forget: positions by (user, round)."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Samples of one upload in one segment that are retained but not learned from: see `cause.engine.quarantine`."""

    user: str
    segment: SegmentKey
    samples: int
    verdict: str
    """The type of the error that training on them alone ends with."""
    since: float | None = None
    """When they were set aside (seconds since 1970); None where nobody writes it down."""
    upload: int | None = None
    """The number of the upload in a home."""

    @property
    def round(self) -> int:
        """The round in which they came."""
        return self.segment.round


class Ledger(Protocol):
    """Records of rounds, users and segments. Only what is retained is known to it."""

    @property
    def round(self) -> int:
        """The last round begun; 0 before the first."""

    def placement(self, user: str) -> int | None:
        """The shard of a user's newest retained upload, where it lies in one."""

    def rounds_of(self, user: str) -> Sequence[int]:
        """Rounds in which the user has retained samples, ascending; none for a stranger."""

    def names_like(self, user: str) -> Sequence[str]:
        """The names of users with retained samples that are this one, the very name first; none for a stranger.

        Only homes of earlier versions hold a name that can be written in several ways.
        """

    def pieces_of(self, user: str, round_: int) -> Sequence[tuple[SegmentKey, Positions]]:
        """Where the retained samples of one upload lie, those in quarantine included."""

    def twins_of(self, user: str, round_: int) -> Mapping[int, bytes]:
        """What identical retained samples of an upload share, by position; empty where there are none."""

    def handles_of(self, user: str, round_: int) -> Mapping[str, int]:
        """The position of each retained sample of an upload, by its handle; empty where samples have none."""

    def shards(self) -> Sequence[int]:
        """Shards that retain anything, ascending."""

    def lineage(self, shard: int) -> Lineage:
        """A shard's segments in order."""

    def record(self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]]) -> None:
        """Begin a round and take what arrived in it."""

    def delete(self, selection: Selection) -> None:
        """Forget these samples for good. A user without samples is forgotten too."""

    def quarantined(self) -> Sequence[Quarantined]:
        """What is set aside, by segment and user."""

    def quarantine(self, key: SegmentKey, verdicts: Mapping[str, str]) -> None:
        """Set the samples of these users in a segment aside, durably: the segment holds the others only."""

    def reinstate(self, first: SegmentKey) -> None:
        """Give back what is set aside in this segment and later ones of the shard: they are about to be replayed."""
