"""The response of `GET /v1/status` as typed dictionaries. A test compares them with the service's schema.

Times are texts like `2026-01-31T12:00:00.000Z`. A newer service may send more keys.
"""

from typing import TypedDict


class Inputs(TypedDict):
    """What the device takes as an input."""

    values: int | None
    shape: list[int] | None


class Staged(TypedDict):
    """What waits for the next round."""

    uploads: int
    users: int
    samples: int
    bytes: int


class Memory(TypedDict):
    """The memory of sub-models; without a budget, `slots` and `budget_bytes` are None."""

    sub_models: int
    slots: int | None
    used_bytes: int
    budget_bytes: int | None


class Storage(TypedDict):
    """The disk space of samples."""

    used_bytes: int
    budget_bytes: int | None


class RoundRsn(TypedDict):
    """Samples that were trained again while a round was the newest."""

    round: int
    rsn: int


class Rsn(TypedDict):
    """Samples that were trained again, so far."""

    total: int
    by_round: list[RoundRsn]


class Repair(TypedDict):
    """What it takes to train everything that waits; seconds and joules need a calibration."""

    waiting: list[int]
    trainings: int
    samples: int
    rsn: int
    seconds: float | None
    joules: float | None
    unknown: str | None


class OpenRequests(TypedDict):
    """Erasures that are in effect and not yet repaired."""

    open: int
    overdue: int
    due_soon: int
    next_deadline: str | None


class Degraded(TypedDict):
    """Shards that hold samples and do not vote."""

    not_voting: list[int]
    of: int
    since: str | None


class Expiring(TypedDict):
    """Samples that will be deleted together."""

    samples: int
    users: int
    rounds: list[int]


class ExpiringAt(Expiring):
    """Samples that will be deleted at a time."""

    at: str


class Retention(TypedDict):
    """What the home deletes next because of its age: when the next round closes, and by the clock."""

    retain: str | None
    next_round: Expiring
    next: ExpiringAt | None


class Training(TypedDict):
    """The training under way."""

    segment: list[int]
    epoch: int
    epochs: int
    done: int
    total: int


class Export(TypedDict):
    """A copy of the ensemble that left the device."""

    id: str
    made: str
    form: str
    tainted: str | None


class Schedule(TypedDict):
    """When rounds are closed, and when shards are repaired: now, idle, deadline or never."""

    close_every_s: float | None
    close_samples: int | None
    repair: str


class QuarantinedUpload(TypedDict):
    """Samples of an upload that make trainings fail; `user` is None unless the token is an operator's."""

    upload: int
    user: str | None
    round: int
    shard: int
    samples: int
    verdict: str
    since: str | None


class Quarantine(TypedDict):
    """Samples in quarantine; `next` is the `after` of the next page, None if all are here."""

    uploads: int
    samples: int
    items: list[QuarantinedUpload]
    next: int | None


class ExpectedAccuracy(TypedDict):
    """Some of the held samples, each predicted from all others: an estimate without held-out data."""

    accuracy: float
    samples: int
    correct: int
    held: int
    at: str
    method: str


class Status(TypedDict):
    """The state of the device; `expected_accuracy` is of an additive learner, and None while it is estimated."""

    name: str
    version: str
    system: str
    round: int
    samples: int
    classes: int
    voting: int
    active_shards: int
    inputs: Inputs
    staged: Staged
    memory: Memory
    storage: Storage
    rsn: Rsn
    repair: Repair
    requests: OpenRequests
    degraded: Degraded | None
    retention: Retention
    training: Training | None
    problem: str | None
    quarantine: Quarantine
    clock: str | None
    exports: list[Export]
    tainted_exports: int
    schedule: Schedule
    expected_accuracy: ExpectedAccuracy | None
