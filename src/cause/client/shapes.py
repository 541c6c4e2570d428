"""What the service answers, as the client hands it on. A test compares them with the service's own schema."""

from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Upload:
    id: str
    state: str
    samples: int
    round: int | None


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
    """An answer as its shape; what a newer service adds is left out, what is missing is an error.

    >>> shaped(Log, {"verifier": "v", "size": 3, "checkpoint": "c", "new": 1})
    Log(verifier='v', size=3, checkpoint='c')
    """
    names = [each.name for each in fields(cls) if each.default is MISSING]  # type: ignore[arg-type]
    return cls(**{name: told[name] for name in names})
