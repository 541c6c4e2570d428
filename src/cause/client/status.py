"""The answer of `GET /v1/status`: dictionaries with known keys. A test compares them with the service's own schema.

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
    """Stored sub-models; without bounds `slots` and `budget_bytes` are None."""

    sub_models: int
    slots: int | None
    used_bytes: int
    budget_bytes: int | None


class Storage(TypedDict):
    """What samples take on the disk."""

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
    """What training everything that waits will take; seconds and joules need a calibration."""

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
    """Samples that will be deleted from a time on."""

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
    """A copy of the ensemble that was given away."""

    id: str
    made: str
    form: str
    tainted: str | None


class Schedule(TypedDict):
    """When rounds close by themselves, and when repairs begin: now, idle, deadline or never."""

    close_every_s: float | None
    close_samples: int | None
    repair: str


class QuarantinedUpload(TypedDict):
    """Samples of an upload that no training can bear; `user` is None for who may not know."""

    upload: int
    user: str | None
    round: int
    shard: int
    samples: int
    verdict: str
    since: str | None


class Quarantine(TypedDict):
    """All of them."""

    uploads: int
    samples: int
    items: list[QuarantinedUpload]


class Status(TypedDict):
    """The device at a glance."""

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
    schedule: Schedule
