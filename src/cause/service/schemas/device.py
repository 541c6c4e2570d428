"""The device: predictions, rounds, status, shards and sub-models."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cause.service.schemas.base import ResponseModel, Segment, Time


class Predictions(ResponseModel):
    """The predicted labels, one for each input."""

    labels: list[int]
    voters: int
    probabilities: list[list[float]] | None = None


class Round(ResponseModel):
    """One round and the state of its training."""

    round: int
    closed: Time | None
    users: int
    samples: int
    retained: int
    segments: int
    trained: int
    rsn: int
    state: Literal["training", "waiting", "trained", "empty"]


class CloseRound(BaseModel):
    """How to close a round. A body is not needed."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}, {"empty": True}]})
    empty: bool = Field(
        False,
        description="Also when nothing is staged: every sample gets a round older, and retention may delete some",
    )


class Rounds(ResponseModel):
    """A page of rounds."""

    items: list[Round]
    next: int | None


class Inputs(ResponseModel):
    """What the device takes as an input."""

    values: int | None
    shape: list[int] | None


class Staged(ResponseModel):
    """What waits for the next round."""

    uploads: int
    users: int
    samples: int
    bytes: int


class Memory(ResponseModel):
    """The memory of sub-models and its budget."""

    sub_models: int
    slots: int | None
    used_bytes: int
    budget_bytes: int | None


class Storage(ResponseModel):
    """The disk space of samples and its budget."""

    used_bytes: int
    budget_bytes: int | None


class RoundRsn(ResponseModel):
    """Samples that were trained again while a round was the newest."""

    round: int
    rsn: int


class Rsn(ResponseModel):
    """Samples that were trained again so far."""

    total: int
    by_round: list[RoundRsn]


class Repair(ResponseModel):
    """What it takes to train everything that waits."""

    waiting: list[int]
    trainings: int
    samples: int
    rsn: int
    seconds: float | None
    joules: float | None
    unknown: str | None


class OpenRequests(ResponseModel):
    """Erasures that are not yet repaired."""

    open: int
    overdue: int
    due_soon: int
    next_deadline: Time | None


class Degraded(ResponseModel):
    """Shards that hold samples and do not vote."""

    not_voting: list[int]
    of: int
    since: Time | None


class Expiring(ResponseModel):
    """Samples that will be deleted together."""

    samples: int
    users: int
    rounds: list[int]


class ExpiringAt(Expiring):
    """Samples that will be deleted at a time."""

    at: Time


class Retention(ResponseModel):
    """What the home deletes next because of its age."""

    retain: str | None
    next_round: Expiring
    next: ExpiringAt | None


class Training(ResponseModel):
    """The training under way."""

    segment: Segment
    epoch: int
    epochs: int
    done: int
    total: int


class Export(ResponseModel):
    """A copy of the ensemble that left the device."""

    id: str
    made: Time
    form: str
    tainted: Time | None


class Exports(ResponseModel):
    """A page of exports."""

    items: list[Export]
    next: int | None


class Schedule(ResponseModel):
    """When rounds are closed and shards are repaired."""

    close_every_s: float | None
    close_samples: int | None
    repair: Literal["now", "idle", "deadline", "never"]


class QuarantinedUpload(ResponseModel):
    """Samples of an upload that make trainings fail."""

    upload: int
    user: str | None
    """None unless the token is an operator's."""
    round: int
    shard: int
    samples: int
    verdict: str
    since: Time | None


class Quarantine(ResponseModel):
    """Samples in quarantine: how many uploads and samples there are, and all of them or a page."""

    uploads: int
    samples: int
    items: list[QuarantinedUpload]
    next: int | None = Field(description="The `after` of the next page of `/v1/quarantine`; null if all are here")


class ExpectedAccuracy(ResponseModel):
    """Some of the held samples, each predicted from all others: an estimate without held-out data."""

    accuracy: float
    samples: int = Field(description="How many samples were predicted")
    correct: int
    held: int = Field(description="How many samples the device holds")
    at: Time
    method: Literal["leave-one-out"] = "leave-one-out"


class Status(ResponseModel):
    """The state of the device."""

    name: str = Field(description="The setting `name` of the service, or the name of the home's folder")
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
    tainted_exports: int = Field(description="How many exports hold samples that were erased since, of all exports")
    schedule: Schedule
    expected_accuracy: ExpectedAccuracy | None = Field(
        description="Of an additive learner, for its present state; null while it is estimated, and for other learners"
    )


class ShardSegment(ResponseModel):
    """One segment of a shard."""

    segment: Segment
    samples: int
    trained: bool
    stored: bool
    head: bool


class Shard(ResponseModel):
    """One shard with its segments."""

    shard: int
    active: bool
    samples: int
    head: Segment | None
    newest: Segment | None
    behind: int
    since: Time | None
    problem: str | None
    environment: str | None = Field(
        description="The recorded environment that it is trained in, as on nodes of a cluster; null: that of the device"
    )
    segments: list[ShardSegment]


class Shards(ResponseModel):
    """Shards that have samples: all, or a page."""

    shards: list[Shard]
    next: int | None = Field(None, description="The `after` of the next page")


class SubModel(ResponseModel):
    """One stored sub-model."""

    segment: Segment
    size_bytes: int
    slot: int
    head: bool
    samples: int
    environment: str


class SubModels(ResponseModel):
    """Stored sub-models: all, or a page."""

    sub_models: list[SubModel]
    next: int | None = Field(None, description="The `after` of the next page")


class StartRepair(BaseModel):
    """What to repair besides the shards that wait. A body is not needed."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}, {"from_scratch": [0]}]})
    from_scratch: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(
        [],
        max_length=10_000,
        description="Shards whose sub-models are all dropped and trained again in the environment of the device, "
        "whichever they had. They do not vote until then",
    )


class Repairs(ResponseModel):
    """Whether a repair was started, and which shards wait."""

    state: Literal["started", "nothing waits"]
    waiting: list[int]
