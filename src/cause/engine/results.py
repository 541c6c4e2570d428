"""Results of a device's calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cause.engine.memory import SubModel
from cause.engine.plan import ShardPlan
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of `learn`: a round that was recorded, and perhaps trained."""

    round: int
    active_shards: int
    trained: tuple[SegmentKey, ...]
    samples: int
    handles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """With a home: the handle of each row, by user, in the order of the rows."""
    repeated: bool = False
    """Whether an earlier call with the same idempotency key recorded the round; then this call recorded nothing."""
    expired: int = 0
    """The number of samples that were deleted with this round because of their age (`retain`)."""


@dataclass(frozen=True, slots=True)
class HeldSample:
    """One sample that a device with a home holds."""

    round: int | None
    """None while the sample is staged."""
    handle: str
    label: int
    arrived: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Voter:
    """A sub-model that votes, and its weight: the number of retained samples that it was trained on."""

    sub_model: SubModel
    weight: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A round that was recorded and is not trained yet."""

    round: int
    active_shards: int
    users: int
    samples: int


@dataclass(frozen=True, slots=True)
class Effect:
    """What was destroyed when requests took effect, before anything is retrained."""

    shards: tuple[ShardPlan, ...]
    dropped: tuple[SegmentKey, ...]
    samples: int
    """The number of deleted samples, quarantined and staged ones included."""
    staged: int
    """The number of staged samples among them."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result of a request, or of several that were served together."""

    requests: tuple[Request, ...]
    shards: tuple[ShardPlan, ...]
    dropped: tuple[SegmentKey, ...]
    rsn: int
    ids: tuple[str, ...] = ()
    samples: int = 0
    """The number of destroyed samples, quarantined and staged ones included; 0 if the device held none."""
    staged: int = 0
    """The number of staged samples among them."""
    unmatched: int | None = None
    """The number of rows that equal no sample of the user; None if the request named no rows."""
