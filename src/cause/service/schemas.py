"""The shapes of answers. `docs/service.md` says what they mean."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cause.device.store.blocks import HANDLE_BYTES

Segment = Annotated[list[int], Field(min_length=3, max_length=3, examples=[[0, 2, 0]])]
Time = Annotated[str, Field(examples=["2026-01-31T12:00:00.000Z"])]
Id = Annotated[str, Field(examples=["6f1e1cf83eab4c0aa0ffb5d0f9e8a4f5"])]


class Shape(BaseModel):
    """Of an answer."""

    model_config = ConfigDict(frozen=True)


class Problem(Shape):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None


class Health(Shape):
    status: Literal["ok", "ready", "starting", "stopping"]


class Token(Shape):
    id: str
    scopes: list[str]
    note: str
    created: Time
    expires: Time


class Upload(Shape):
    id: Id
    state: Literal["staged", "learned", "erased"]
    samples: int
    round: int | None = None
    handles: list[str] = Field(
        [],
        description="One for each row, in the order of the upload; empty in a repeated answer once the round is closed "
        "or a row was forgotten",
    )


class UserUpload(Upload):
    user: str
    handles: list[str] = Field([], description="One for each row of this user, in the order of the upload")


class Uploads(Shape):
    """Samples of several users that arrived in one request."""

    samples: int
    uploads: list[UserUpload]
    handles: list[str] = Field([], description="One for each row of the request, in its order; empty as in `Upload`")


class HeldSample(Shape):
    round: int | None = Field(description="None while it waits for a round")
    handle: str
    label: int
    arrived: Time


class HeldSamples(Shape):
    items: list[HeldSample]
    next: int | None


class Matched(Shape):
    """The samples of a user that equal given rows."""

    rows: int
    unmatched: int = Field(description="Rows that equal no sample of the user")
    handles: list[str] = Field(description="Of all samples that equal a row; for an erasure")


class UserRound(Shape):
    round: int
    samples: int
    shards: list[int]


class UserStaged(Shape):
    uploads: int
    samples: int


class User(Shape):
    samples: int
    quarantined: int
    """Of the samples: those that no training can bear."""
    rounds: list[UserRound]
    staged: UserStaged


class Erasure(BaseModel):
    """What to forget: everything, some rounds, the lowest `count` samples of one round, or named samples.

    A row is named by its handle, which its upload answered with. A position is a random number inside the device and
    not the row's number in the upload, so the samples with the lowest ones are a random part of the round.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{}, {"rounds": [1]}, {"rounds": [1], "count": 5}, {"handles": ["0123456789abcdef"]}]
        },
    )
    rounds: list[Annotated[int, Field(ge=1, lt=2**31)]] | None = Field(None, min_length=1, max_length=1000)
    count: int | None = Field(None, ge=1, lt=2**31)
    samples: list[Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=2, max_length=2)]] | None = (
        Field(
            None,
            min_length=1,
            max_length=10_000,
            description="Pairs of round and position. A position is a random number inside the device, not the row's "
            "number in the upload: to forget a row, send its handle.",
        )
    )
    handles: list[Annotated[str, Field(min_length=1, max_length=2 * HANDLE_BYTES)]] | None = Field(
        None, min_length=1, max_length=10_000, description="What an upload answered with for each of its rows"
    )
    nonce: str | None = Field(
        None, min_length=1, max_length=128, description="A random text that the receipts commit to, as nonce_sha256"
    )


class Request(Shape):
    id: Id
    state: Literal["accepted", "in_effect", "repaired"]
    received: Time
    deadline: Time
    effective: Time | None
    repaired: Time | None
    samples: int | None
    staged: int
    shards: list[int]
    rsn_planned: int | None
    receipts: list[int]
    note: str | None = Field(None, description="To an operator who asked: that nothing was held of the user")


class Requests(Shape):
    items: list[Request]
    next: int | None


class PlanShard(Shape):
    shard: int
    samples: int
    first: Segment
    restart: Segment | None
    replay: list[Segment]
    rsn: int


class Plan(Shape):
    samples: int
    staged: int
    rsn: int
    destroyed: list[Segment]
    shards: list[PlanShard]
    seconds: float | None
    joules: float | None
    unknown: str | None


class Predictions(Shape):
    labels: list[int]
    voters: int
    probabilities: list[list[float]] | None = None


class Round(Shape):
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


class Rounds(Shape):
    items: list[Round]
    next: int | None


class Inputs(Shape):
    values: int | None
    shape: list[int] | None


class Staged(Shape):
    uploads: int
    users: int
    samples: int
    bytes: int


class Memory(Shape):
    sub_models: int
    slots: int | None
    used_bytes: int
    budget_bytes: int | None


class Storage(Shape):
    used_bytes: int
    budget_bytes: int | None


class RoundRsn(Shape):
    round: int
    rsn: int


class Rsn(Shape):
    total: int
    by_round: list[RoundRsn]


class Repair(Shape):
    waiting: list[int]
    trainings: int
    samples: int
    rsn: int
    seconds: float | None
    joules: float | None
    unknown: str | None


class OpenRequests(Shape):
    open: int
    overdue: int
    due_soon: int
    next_deadline: Time | None


class Degraded(Shape):
    """Shards that hold samples and do not vote."""

    not_voting: list[int]
    of: int
    since: Time | None


class Expiring(Shape):
    samples: int
    users: int
    rounds: list[int]


class ExpiringAt(Expiring):
    at: Time


class Retention(Shape):
    """What the home deletes next because of its age."""

    retain: str | None
    next_round: Expiring
    next: ExpiringAt | None


class Training(Shape):
    segment: Segment
    epoch: int
    epochs: int
    done: int
    total: int


class Export(Shape):
    id: str
    made: Time
    form: str
    tainted: Time | None


class Schedule(Shape):
    close_every_s: float | None
    close_samples: int | None
    repair: Literal["now", "idle", "deadline", "never"]


class QuarantinedUpload(Shape):
    upload: int
    user: str | None
    """None for who may not know."""
    round: int
    shard: int
    samples: int
    verdict: str
    since: Time | None


class Quarantine(Shape):
    uploads: int
    samples: int
    items: list[QuarantinedUpload]


class Status(Shape):
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


class ShardSegment(Shape):
    segment: Segment
    samples: int
    trained: bool
    stored: bool
    head: bool


class Shard(Shape):
    shard: int
    active: bool
    samples: int
    head: Segment | None
    newest: Segment | None
    behind: int
    since: Time | None
    problem: str | None
    segments: list[ShardSegment]


class Shards(Shape):
    shards: list[Shard]


class SubModel(Shape):
    segment: Segment
    size_bytes: int
    slot: int
    head: bool
    samples: int
    environment: str


class SubModels(Shape):
    sub_models: list[SubModel]


class Repairs(Shape):
    state: Literal["started", "nothing waits"]
    waiting: list[int]


class Receipt(Shape):
    number: int
    kind: Literal["effect", "repair", "restore"]
    request: Id
    received: Time
    in_effect: Time
    repaired: Time | None
    samples: int
    destroyed: int
    shards: list[int]


class Receipts(Shape):
    items: list[Receipt]
    next: int | None


class Bundle(Shape):
    number: int
    receipt: str
    proof: list[str]
    checkpoint: str


class Bundles(Shape):
    receipts: list[Bundle]


class Verification(Shape):
    id: Id
    receipt: int | None
    state: Literal["running", "holds", "mismatch", "failed"]
    started: Time
    finished: Time | None = None
    sub_models: int | None = None
    identical: int | None = None
    mismatched: int | None = None
    unverifiable: int | None = None
    superseded: int | None = None
    detail: str | None = None


class Log(Shape):
    verifier: str
    size: int
    checkpoint: str


class Consistency(Shape):
    since: int
    size: int
    proof: list[str]


class ClassAccuracy(Shape):
    label: int
    samples: int
    accuracy: float


class HeadAccuracy(Shape):
    shard: int
    segment: Segment
    accuracy: float


class Evaluation(Shape):
    id: int
    at: Time
    round: int
    samples: int
    accuracy: float
    voters: int
    classes: list[ClassAccuracy]
    heads: list[HeadAccuracy]


class Evaluations(Shape):
    items: list[Evaluation]
    next: int | None


class Baseline(Shape):
    system: str
    rsn: int | None = None
    seconds: float | None = None
    joules: float | None = None
    rsn_per_round: list[int] | None = None
    floor_rsn: int | None = None
    unknown: str | None = None


class Baselines(Shape):
    state: Literal["computing", "ready", "failed"]
    round: int
    rsn: int
    seconds: float | None = None
    joules: float | None = None
    energy_unknown: str | None = None
    systems: list[Baseline]
    detail: str | None = None


class EnergyRepair(Shape):
    seconds: float | None
    joules: float | None
    unknown: str | None


class Energy(Shape):
    meter: str | None
    unavailable: str | None
    calibrated: bool
    repair: EnergyRepair
