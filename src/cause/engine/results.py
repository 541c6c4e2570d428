"""What the calls of a device tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cause.engine.memory import SubModel
from cause.engine.plan import ShardPlan
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey


@dataclass(frozen=True, slots=True)
class Learned:
    """What a round did."""

    round: int
    active_shards: int
    trained: tuple[SegmentKey, ...]
    samples: int
    handles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """With a home: the handle of each row, by user, in the order in which the rows were given."""
    repeated: bool = False
    """Whether a call with the same idempotency key had recorded the round before: nothing was taken in again."""
    expired: int = 0
    """How many samples were deleted with this round, because they were older than the home keeps samples (`retain`)."""


@dataclass(frozen=True, slots=True)
class HeldSample:
    """One sample that a device with a home holds."""

    round: int | None
    """None while it waits for a round."""
    handle: str
    label: int
    arrived: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Voter:
    """A sub-model that votes, and how many retained samples are behind it."""

    sub_model: SubModel
    weight: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A round that was taken in and is not trained yet."""

    round: int
    active_shards: int
    users: int
    samples: int


@dataclass(frozen=True, slots=True)
class Effect:
    """What is destroyed once requests take effect, before anything is trained again."""

    shards: tuple[ShardPlan, ...]
    dropped: tuple[SegmentKey, ...]
    samples: int
    """Samples that were forgotten, those in quarantine and those that waited for a round included."""
    staged: int
    """Of them, those that waited for a round."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a request, or a batch of them, did."""

    requests: tuple[Request, ...]
    shards: tuple[ShardPlan, ...]
    dropped: tuple[SegmentKey, ...]
    rsn: int
    ids: tuple[str, ...] = ()
    samples: int = 0
    """How many samples were destroyed, those in quarantine and those that waited for a round included; 0 if nothing was
    held."""
    staged: int = 0
    """Of them, those that waited for a round."""
    unmatched: int | None = None
    """Of rows that were to be matched, how many equal no sample of the user; None if no rows were given."""
