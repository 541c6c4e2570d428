"""What the service answers, as the client hands it on. A test compares them with the service's own schema."""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Upload:
    id: str
    state: str
    samples: int
    round: int | None
    handles: list[str] = field(default_factory=list)
    """One for each row, in the order of the upload; none in a repeated answer once the round is closed."""


@dataclass(frozen=True)
class UserUpload:
    """One user's part of an upload of several."""

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
    """One for each row, in the order of the upload; none in a repeated answer once the round is closed."""


@dataclass(frozen=True)
class HeldSample:
    """A sample that the device holds; one that waits for a round has none yet."""

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
    """An erasure, and how far it is."""

    id: str
    state: str
    received: str
    deadline: str
    effective: str | None
    repaired: str | None
    samples: int | None
    staged: int
    shards: list[int]
    rsn_planned: int | None
    receipts: list[int]
    note: str | None = None
    """To an operator: that nothing was held of the user."""

    @property
    def in_effect(self) -> bool:
        """Nothing that is stored or served has seen the samples."""
        return self.state != "accepted"


@dataclass(frozen=True)
class Predictions:
    labels: list[int]
    voters: int
    probabilities: list[list[float]] | None


@dataclass(frozen=True)
class Round:
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
    verifier: str
    size: int
    checkpoint: str


@dataclass(frozen=True)
class Evaluation:
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
    id: int | None
    kind: str
    data: dict[str, Any]


def shaped(cls: type[T], told: Any) -> T:
    """An answer as its shape; what a newer service adds is left out, what is missing without a default is an error.

    >>> shaped(Log, {"verifier": "v", "size": 3, "checkpoint": "c", "new": 1})
    Log(verifier='v', size=3, checkpoint='c')
    """
    found = {}
    for each in fields(cls):  # type: ignore[arg-type]
        needed = each.default is MISSING and each.default_factory is MISSING
        if needed or each.name in told:
            found[each.name] = told[each.name]
    return cls(**found)
