"""What a ledger is: it records who uploaded which samples, their segments, and which are still retained."""

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
    """Samples of one upload in one segment that are retained but not learned from (`cause.engine.quarantine`)."""

    user: str
    segment: SegmentKey
    samples: int
    verdict: str
    """The type of the error with which training on them alone fails."""
    since: float | None = None
    """When they were put in quarantine (seconds since 1970); None in a ledger without a clock."""
    upload: int | None = None
    """The number of the upload in a home; None outside a home."""

    @property
    def round(self) -> int:
        """The round in which they were uploaded."""
        return self.segment.round


class Ledger(Protocol):
    """Records of rounds, users and segments. It holds nothing about samples that were deleted."""

    lists_digests: bool
    """Whether each segment's digests are stored as a list, for its manifest; a law that needs none sets it to False."""

    @property
    def round(self) -> int:
        """The number of the last round; 0 before the first."""

    def placement(self, user: str) -> int | None:
        """Return the shard of a user's newest retained upload; None if it is in several shards or there is none."""

    def rounds_of(self, user: str) -> Sequence[int]:
        """Return the rounds in which a user has retained samples, ascending; empty for an unknown user."""

    def names_like(self, user: str) -> Sequence[str]:
        """Return the stored names that are this user's, exactly this name first; empty for an unknown user.

        Only homes of earlier versions hold one name in several spellings.
        """

    def pieces_of(self, user: str, round_: int) -> Sequence[tuple[SegmentKey, Positions]]:
        """Return the segments of an upload with the retained positions in each, quarantined ones included."""

    def held_pieces(self, user: str, round_: int) -> Sequence[tuple[SegmentKey, Piece]]:
        """Return the segments of an upload with its retained samples in each, quarantined ones included."""

    def twins_of(self, user: str, round_: int) -> Mapping[int, bytes]:
        """Return a digest by position for an upload's retained samples, equal for identical ones; empty if none are."""

    def handles_of(self, user: str, round_: int) -> Mapping[str, int]:
        """Return the position of each retained sample of an upload by its handle; empty if samples have none."""

    def shards(self) -> Sequence[int]:
        """Return the shards with retained samples, ascending."""

    def lineage(self, shard: int) -> Lineage:
        """Return a shard's segments in order."""

    def record(self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]]) -> None:
        """Begin a round and record the samples of its segments."""

    def delete(self, selection: Selection) -> None:
        """Delete these samples, and users who have no samples left."""

    def quarantined(self) -> Sequence[Quarantined]:
        """Return the samples in quarantine, sorted by segment and user."""

    def quarantine(self, key: SegmentKey, verdicts: Mapping[str, str]) -> None:
        """Put samples of a segment in quarantine, durably.

        Parameters
        ----------
        key
            The segment.
        verdicts
            The users whose samples are quarantined, with the type of the error.
        """

    def reinstate(self, first: SegmentKey) -> None:
        """Take all samples of this and later segments of the shard out of quarantine, before they are replayed."""
