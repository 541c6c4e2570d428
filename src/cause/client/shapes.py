"""The service's responses as dataclasses. A test compares them with the service's schema."""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Upload:
    """Samples of one user that arrived in one request."""

    id: str
    state: str
    samples: int
    round: int | None
    handles: list[str] = field(default_factory=list)
    """One for each row, in the order of the upload; empty in a repeated response once the round is closed."""


@dataclass(frozen=True)
class UserUpload:
    """One user's part of an upload of several users."""

    user: str
    id: str
    state: str
    samples: int
    round: int | None
    handles: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Uploads:
    """An upload of samples of several users."""

    samples: int
    uploads: list[UserUpload]
    handles: list[str] = field(default_factory=list)
    """One for each row, in the order of the upload; empty in a repeated response once the round is closed."""


@dataclass(frozen=True)
class HeldSample:
    """A sample that the device holds; its round is None while it waits for one."""

    round: int | None
    handle: str
    label: int
    arrived: str


@dataclass(frozen=True)
class Matched:
    """The samples of a user that equal some rows."""

    rows: int
    unmatched: int
    handles: list[str]


@dataclass(frozen=True)
class Request:
    """An erasure and its state."""

    id: str
    state: str
    received: str
    deadline: str
    effective: str | None
    repaired: str | None
    samples: int | None
    staged: int
    receipts: list[int]
    shards: list[int] = field(default_factory=list)
    """The shards that the request touched; a user's own token gets an empty list."""
    rsn_planned: int | None = None
    """The number of samples to train again; a user's own token gets None."""
    note: str | None = None
    """Tells an operator that nothing was held of the user."""

    @property
    def in_effect(self) -> bool:
        """Whether nothing that is stored or served has seen the samples."""
        return self.state != "accepted"


@dataclass(frozen=True)
class Predictions:
    """Predicted labels, one for each input."""

    labels: list[int]
    voters: int
    probabilities: list[list[float]] | None


@dataclass(frozen=True)
class Round:
    """A round and the state of its training."""

    round: int
    closed: str | None
    users: int
    samples: int
    retained: int
    segments: int
    trained: int
    rsn: int
    state: str


@dataclass(frozen=True)
class Bundle:
    """A receipt with its proof: `cause verify FILE --key` checks it away from the device."""

    number: int
    receipt: str
    proof: list[str]
    checkpoint: str


@dataclass(frozen=True)
class Verification:
    """A verification by replay and its result."""

    id: str
    receipt: int | None
    state: str
    started: str
    finished: str | None
    sub_models: int | None
    identical: int | None
    mismatched: int | None
    unverifiable: int | None
    superseded: int | None
    detail: str | None


@dataclass(frozen=True)
class Log:
    """The signed head of the log, and the key to check it with."""

    verifier: str
    size: int
    checkpoint: str


@dataclass(frozen=True)
class Evaluation:
    """The accuracy on labelled samples."""

    id: int
    at: str
    round: int
    samples: int
    accuracy: float
    voters: int
    classes: list[dict[str, Any]]
    heads: list[dict[str, Any]]


@dataclass(frozen=True)
class Event:
    """Something that happened on the device."""

    id: int | None
    kind: str
    data: dict[str, Any]


def from_json(cls: type[T], body: Any) -> T:
    """Return a JSON object as a dataclass.

    Keys that a newer service has added are ignored.

    Raises
    ------
    KeyError
        If a key is missing whose field has no default.

    Examples
    --------
    >>> from_json(Log, {"verifier": "v", "size": 3, "checkpoint": "c", "new": 1})
    Log(verifier='v', size=3, checkpoint='c')
    """
    values = {}
    for field_ in fields(cls):  # type: ignore[arg-type]
        required = field_.default is MISSING and field_.default_factory is MISSING
        if required or field_.name in body:
            values[field_.name] = body[field_.name]
    return cls(**values)
