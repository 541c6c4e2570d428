"""What the calls of a device tell."""

from dataclasses import dataclass

from cause.memory import SubModel
from cause.plan import ShardPlan
from cause.requests import Request
from cause.samples import SegmentKey


@dataclass(frozen=True, slots=True)
class Learned:
    """What a round did."""

    round: int
    active_shards: int
    trained: tuple[SegmentKey, ...]
    samples: int


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
class Forgotten:
    """What a request, or a batch of them, did."""

    requests: tuple[Request, ...]
    shards: tuple[ShardPlan, ...]
    dropped: tuple[SegmentKey, ...]
    rsn: int
    ids: tuple[str, ...] = ()
