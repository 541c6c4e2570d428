"""The bodies of requests and responses. `docs/service.md` says what their fields mean."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from cause.common.names import LONGEST_USER_ID
from cause.device.store.blocks import HANDLE_BYTES

Segment = Annotated[list[int], Field(min_length=3, max_length=3, examples=[[0, 2, 0]])]
Time = Annotated[str, Field(examples=["2026-01-31T12:00:00.000Z"])]
Id = Annotated[str, Field(examples=["6f1e1cf83eab4c0aa0ffb5d0f9e8a4f5"])]

USER_PATTERN = r"^[^\x00-\x1f\x7f\uFFFD]+$"
"""What a user's id matches."""
MOST_ERASURES = 500
"""Users in one request for several erasures."""


class ResponseModel(BaseModel):
    """The base class of all bodies of responses."""

    model_config = ConfigDict(frozen=True)


class Problem(ResponseModel):
    """An error, as in RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None


class Health(ResponseModel):
    """Whether the service is up."""

    status: Literal["ok", "ready", "starting", "stopping"]


class Token(ResponseModel):
    """A token, without its secret."""

    id: str
    scopes: list[str]
    note: str
    created: Time
    expires: Time


class ListedToken(Token):
    """A token as lists show it. Whom the token of a user is for is not kept anywhere."""

    revoked: Time | None
    valid: bool = Field(description="Neither revoked nor expired")


class ListedTokens(ResponseModel):
    """A page of tokens."""

    items: list[ListedToken]
    next: int | None


class NewToken(Token):
    """A token that was just made."""

    secret: str = Field(description="What clients send; it is shown this once")


class CreateToken(BaseModel):
    """What a new token may do."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"scopes": ["predict"], "note": "the camera at the door", "days": 30}]},
    )
    scopes: list[Literal["user", "ingest", "predict", "operator", "auditor", "admin"]] = Field(
        min_length=1, max_length=6
    )
    user: str | None = Field(
        None, min_length=1, max_length=LONGEST_USER_ID, description="With the scope `user`: the user whom it is for"
    )
    note: str = Field("", max_length=200, description="A line for lists of tokens; no names")
    days: float = Field(90.0, gt=0, le=3650, description="Until it expires")


class Upload(ResponseModel):
    """Samples of one user that arrived in one request."""

    id: Id
    state: Literal["staged", "learned", "erased"] = Field(
        description="Of a repeated upload `erased` once any of its samples were forgotten after its round was closed"
    )
    samples: int = Field(description="How many wait or were learned; 0 if erased, also while others of them are held")
    round: int | None = None
    handles: list[str] = Field(
        [],
        description="One for each row, in the order of the upload; empty in a repeated answer once the round is closed "
        "or a row was forgotten",
    )


class UserUpload(Upload):
    """One user's part of an upload of several users."""

    user: str
    handles: list[str] = Field([], description="One for each row of this user, in the order of the upload")


class Uploads(ResponseModel):
    """Samples of several users that arrived in one request."""

    samples: int
    uploads: list[UserUpload]
    handles: list[str] = Field([], description="One for each row of the request, in its order; empty as in `Upload`")


class HeldSample(ResponseModel):
    """One sample that the device holds."""

    round: int | None = Field(description="None while it waits for a round")
    handle: str
    label: int
    arrived: Time


class HeldSamples(ResponseModel):
    """A page of a user's samples."""

    items: list[HeldSample]
    next: int | None


class Matched(ResponseModel):
    """The samples of a user that equal given rows."""

    rows: int
    unmatched: int = Field(description="Rows that equal no sample of the user")
    handles: list[str] = Field(description="Of all samples that equal a row; for an erasure")


class OwnRound(ResponseModel):
    """What is held of a user of one round, as the user's own token reads it."""

    round: int
    samples: int


class UserRound(OwnRound):
    """What is held of a user of one round."""

    shards: list[int]


class UserStaged(ResponseModel):
    """What of a user waits for the next round."""

    uploads: int
    samples: int


class Quota(ResponseModel):
    """The most that one user may hold, staged samples included, when the user's own token uploads."""

    samples: int | None = Field(description="None: as many as fit")
    bytes: int | None = Field(description="On the disk; None: as many as fit")


class OwnUser(ResponseModel):
    """What is held of a user, as the user's own token reads it."""

    samples: int
    quarantined: int = Field(description="How many of the samples are in quarantine")
    rounds: list[OwnRound]
    staged: UserStaged
    bytes: int = Field(description="On the disk, staged samples included")
    quota: Quota


class User(ResponseModel):
    """What is held of a user."""

    samples: int
    quarantined: int = Field(description="How many of the samples are in quarantine")
    rounds: list[UserRound]
    staged: UserStaged
    bytes: int = Field(description="On the disk, staged samples included")
    quota: Quota


def _erasure_schema(schema: dict[str, Any]) -> None:
    """Add examples, and delete null from the types of the fields: a client may leave them out, but not send null."""
    schema["examples"] = [{}, {"rounds": [1]}, {"rounds": [1], "count": 5}, {"handles": ["0123456789abcdef"]}]
    for field in schema["properties"].values():
        (only,) = (type_ for type_ in field.pop("anyOf") if type_ != {"type": "null"})
        field.pop("default")
        field.update(only)


def _user_erasure_schema(schema: dict[str, Any]) -> None:
    user = schema["properties"].pop("user")
    _erasure_schema(schema)
    schema["properties"] = {"user": user, **schema["properties"]}
    schema["examples"] = [{"user": "alice"} | example for example in schema["examples"]]


class Erasure(BaseModel):
    """What to forget: everything, some rounds, the lowest `count` samples of one round, or named samples.

    A row is named by its handle, which its upload answered with. A position is a random number inside the device and
    not the row's number in the upload, so the samples with the lowest ones are a random part of the round.

    A field that is left out sets no limit. A field that is null is refused: a program whose list of handles was never
    filled must not erase everything.
    """

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_erasure_schema)
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

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        if value is None:
            raise PydanticCustomError("null", "null is refused: leave the field out where it sets no limit")
        return value


class OwnRequest(ResponseModel):
    """An erasure and its state, as tokens read it that are neither an operator's nor an auditor's."""

    id: Id
    state: Literal["accepted", "in_effect", "repaired"]
    received: Time
    deadline: Time
    effective: Time | None
    repaired: Time | None
    samples: int | None
    staged: int
    receipts: list[int]
    note: str | None = Field(None, description="To an operator who asked: that nothing was held of the user")


class Request(OwnRequest):
    """An erasure and its state."""

    shards: list[int]
    rsn_planned: int | None


class UserErasure(Erasure):
    """What to forget of one user."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_user_erasure_schema)
    user: str = Field(min_length=1, max_length=LONGEST_USER_ID, pattern=USER_PATTERN, examples=["alice"])


class Erasures(BaseModel):
    """What to forget of several users, each named once."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"erasures": [{"user": "alice"}, {"user": "bob", "rounds": [1]}]}]},
    )
    erasures: list[UserErasure] = Field(min_length=1, max_length=MOST_ERASURES)


class UserRequest(Request):
    """An erasure of several users' that were asked for together, and whose it is."""

    user: str


class UserRequests(ResponseModel):
    """The erasures of several users, in the order of the request."""

    requests: list[UserRequest]


class Requests(ResponseModel):
    """A page of erasures."""

    items: list[Request]
    next: int | None


class PlanShard(ResponseModel):
    """What an erasure would do in one shard."""

    shard: int
    samples: int
    first: Segment
    restart: Segment | None
    replay: list[Segment]
    rsn: int


class OwnPlan(ResponseModel):
    """What an erasure would delete, as the user's own token reads it."""

    samples: int
    staged: int


class Plan(OwnPlan):
    """What an erasure would delete and cost."""

    rsn: int
    destroyed: list[Segment]
    shards: list[PlanShard]
    seconds: float | None
    joules: float | None
    unknown: str | None


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
        description="The environment that it is trained in, on nodes of a cluster; null: that of the device"
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


class Repairs(ResponseModel):
    """Whether a repair was started, and which shards wait."""

    state: Literal["started", "nothing waits"]
    waiting: list[int]


class Receipt(ResponseModel):
    """What a receipt says."""

    number: int
    kind: Literal["effect", "repair", "restore"]
    request: Id
    received: Time
    in_effect: Time
    repaired: Time | None
    samples: int
    destroyed: int
    shards: list[int]


class Receipts(ResponseModel):
    """A page of receipts."""

    items: list[Receipt]
    next: int | None


class Bundle(ResponseModel):
    """A receipt with its proof and a signed checkpoint of the log."""

    number: int
    receipt: str
    proof: list[str]
    checkpoint: str


class Bundles(ResponseModel):
    """The receipts of one request."""

    receipts: list[Bundle]


class Verification(ResponseModel):
    """A verification by replay and its result."""

    id: Id
    receipt: int | None
    state: Literal["running", "holds", "nothing", "mismatch", "failed"] = Field(
        description="`nothing`: signature and proof hold, and there was no sub-model to replay"
    )
    started: Time
    finished: Time | None = None
    sub_models: int | None = None
    identical: int | None = None
    mismatched: int | None = None
    unverifiable: int | None = None
    superseded: int | None = None
    detail: str | None = None


class Log(ResponseModel):
    """The signed head of the log, and the key to check it with."""

    verifier: str
    size: int
    checkpoint: str


class Consistency(ResponseModel):
    """The proof that the log has only grown."""

    since: int
    size: int
    proof: list[str]


class ClassAccuracy(ResponseModel):
    """The accuracy on the samples of one class."""

    label: int
    samples: int
    accuracy: float


class HeadAccuracy(ResponseModel):
    """The accuracy of one head alone."""

    shard: int
    segment: Segment
    accuracy: float


class Evaluation(ResponseModel):
    """The accuracy on labelled samples."""

    id: int
    at: Time
    round: int
    samples: int
    accuracy: float
    voters: int
    classes: list[ClassAccuracy]
    heads: list[HeadAccuracy]


class Evaluations(ResponseModel):
    """A page of evaluations."""

    items: list[Evaluation]
    next: int | None


class Baseline(ResponseModel):
    """What one of the paper's systems would have retrained."""

    system: str
    rsn: int | None = None
    seconds: float | None = None
    joules: float | None = None
    rsn_per_round: list[int] | None = None
    floor_rsn: int | None = None
    unknown: str | None = None


class Baselines(ResponseModel):
    """The paper's systems on this device's history."""

    state: Literal["computing", "ready", "failed"]
    round: int
    rsn: int
    seconds: float | None = None
    joules: float | None = None
    energy_unknown: str | None = None
    systems: list[Baseline]
    detail: str | None = None


class EnergyRepair(ResponseModel):
    """The estimated cost of the repair."""

    seconds: float | None
    joules: float | None
    unknown: str | None


class Energy(ResponseModel):
    """The energy meter, and the estimated cost of the repair."""

    meter: str | None
    unavailable: str | None
    calibrated: bool
    repair: EnergyRepair


class HistoryPoint(ResponseModel):
    """The device at one moment."""

    at: Time
    round: int
    shards: int
    voting: int
    sub_models: int
    memory_bytes: int
    storage_bytes: int
    rsn: int = Field(description="Samples that were trained again so far")
    joules: float | None


class HistoryEvaluation(ResponseModel):
    """The accuracy at one moment, and how many shards voted then."""

    id: int
    at: Time
    round: int
    samples: int
    accuracy: float
    voters: int


class HistoryErasures(ResponseModel):
    """Erasures that took effect at one moment, or near to each other."""

    at: Time
    requests: int
    samples: int


class HistoryRound(ResponseModel):
    """A round of which samples are held: when it was closed, and what was trained again while it was the newest."""

    round: int
    at: Time
    samples: int
    rsn: int
    joules: float | None


class History(ResponseModel):
    """The device over time, the oldest first. Points are kept since the home was first served by this version."""

    since: Time | None
    until: Time
    evaluations: list[HistoryEvaluation]
    erasures: list[HistoryErasures]
    rounds: list[HistoryRound]
    points: list[HistoryPoint]
    energy_unknown: str | None
