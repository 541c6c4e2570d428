"""What is done to a device under torture, drawn at random, and what it should have left, by plain set arithmetic."""

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from cause.common import positions as pos
from cause.engine.arrays import ArrayUpload
from cause.engine.requests import Request
from tests.clean_room import meant
from tests.device.homes import samples
from tests.small_learners import Sample
from tests.torture.sample_ids import know

ID_BYTES = 16
USERS = ("ann of aachen", "bob of berlin", "cyd of calais", "dan of dublin", "eve of exeter")
SYSTEMS = (
    "frugal",
    "cause",
    "sisa",
    "frugal:partition=hash,policy=fifo",
    "cause:partition=uniform,policy=random,slices=2",
    "cause:requests=coalesced,rehearsal=0.5",
)


@dataclass(frozen=True)
class Stage:
    """An upload that waits for its round."""

    round: int
    user: str
    count: int

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.user}, round {self.round}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Learn:
    """A round: users, and how many samples each uploads. A staged one takes in what waits, and these by way of it."""

    round: int
    uploads: tuple[tuple[str, int], ...]
    repair: str = "now"
    staged: bool = False


@dataclass(frozen=True)
class Forget:
    requests: tuple[Request, ...]
    repair: str = "now"


@dataclass(frozen=True)
class Repair:
    """Some segments of what waits, or all of it."""

    segments: int | None = None


@dataclass(frozen=True)
class Reopen:
    pass


Call = Stage | Learn | Forget | Repair | Reopen


@dataclass(frozen=True)
class Case:
    """A trace, and what it is run on."""

    calls: tuple[Call, ...]
    system: str = "frugal"
    shards: int = 2
    slots: int = 5
    learner: str = "bayes"

    def __post_init__(self) -> None:
        for user, round_, count in self.uploads():
            know(user, round_, count)

    def uploads(self) -> Iterator[tuple[str, int, int]]:
        """User, round and number of samples of everything that is uploaded."""
        for call in self.calls:
            if isinstance(call, Stage):
                yield call.user, call.round, call.count
            elif isinstance(call, Learn):
                yield from ((user, call.round, count) for user, count in call.uploads)


@dataclass
class Book:
    """What a device should hold after some calls."""

    retained: set[Sample] = field(default_factory=set)
    forgotten: set[Sample] = field(default_factory=set)
    staged: set[Sample] = field(default_factory=set)
    round: int = 0

    def apply(self, call: Call) -> None:
        if isinstance(call, Stage):
            self.staged |= {(call.user, call.round, n) for n in range(call.count)}
        elif isinstance(call, Learn):
            self.round = call.round
            self.retained |= {(user, call.round, n) for user, count in call.uploads for n in range(count)}
            if call.staged:
                self.retained |= self.staged
                self.staged = set()
        elif isinstance(call, Forget):
            for request in call.requests:
                deleted = meant(request, self.retained)
                self.retained -= deleted
                waiting = {s for s in self.staged if s[0] == request.user and request.everything}
                self.staged -= waiting
                self.forgotten |= deleted | waiting

    @classmethod
    def after(cls, calls: Iterable[Call]) -> "Book":
        book = cls()
        for call in calls:
            book.apply(call)
        return book


@dataclass(frozen=True)
class Traces:
    """The bytes that would identify a sample."""

    x: bytes
    digest: bytes
    id: bytes


@cache
def traces(user: str, round_: int, count: int) -> tuple[Traces, ...]:
    """Those of an upload, by row."""
    rows, labels = samples(user, round_, count)
    upload = ArrayUpload(user, round_, rows, labels)
    x, _ = upload.arrays(upload.positions)
    digests = upload.twins(upload.positions)
    ids = [upload.names(pos.from_values([each]))[-ID_BYTES:] for each in pos.array(upload.positions).tolist()]
    by_row = {row.tobytes(): Traces(row.tobytes(), *own) for row, *own in zip(x, digests, ids, strict=True)}
    return tuple(by_row[row.tobytes()] for row in rows)


def traces_of(calls: Sequence[Call], samples: Iterable[Sample]) -> dict[Sample, Traces]:
    """Those of some samples."""
    counts = {(user, call.round): count for call in calls if isinstance(call, Learn) for user, count in call.uploads}
    counts |= {(call.user, call.round): call.count for call in calls if isinstance(call, Stage)}
    return {(user, t, n): traces(user, t, counts[user, t])[n] for user, t, n in samples}


def random_case(seed: int, learner: str = "bayes") -> Case:
    """A trace that is valid from its first call to its last."""
    draw = random.Random(seed)
    book, calls = Book(), []
    for number in range(draw.randint(5, 9)):
        call = _learn(draw, book) if number == 0 else random_call(draw, book)
        book.apply(call)
        calls.append(call)
    return Case(tuple(calls), draw.choice(SYSTEMS), draw.choice((1, 2, 3)), draw.choice((3, 5, 9)), learner)


def additive_case(seed: int) -> Case:
    """A trace for a device that adds and subtracts: its uploads never wait for a round."""
    case = random_case(seed)
    calls = tuple(replace(call, staged=False) if isinstance(call, Learn) else call for call in case.calls)
    return Case(calls, "additive", 1, 1 + case.slots % 3, "additive")


def random_call(draw: random.Random, book: Book) -> Call:
    """A call that is valid after those in the book."""
    kind = draw.choices(("learn", "forget", "repair", "reopen"), (4, 5, 1, 1))[0]
    if kind == "learn" or (kind == "forget" and not book.retained):
        return _learn(draw, book)
    if kind == "forget":
        return _forget(draw, book)
    return Repair(draw.choice((None, 1, 2))) if kind == "repair" else Reopen()


def _learn(draw: random.Random, book: Book) -> Learn:
    users = draw.sample(USERS, draw.randint(1, 3))
    counts = tuple((user, draw.choices((1, 3, 8, 20, 150), (3, 3, 3, 3, 1))[0]) for user in sorted(users))
    return Learn(book.round + 1, counts, draw.choice(("now", "now", "later")), draw.random() < 0.3)


def _forget(draw: random.Random, book: Book) -> Forget:
    left, requests = set(book.retained), []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if left:
            requests.append(_request(draw, left))
            left -= meant(requests[-1], left)
    return Forget(tuple(requests), draw.choice(("now", "later")))


def _request(draw: random.Random, left: set[Sample]) -> Request:
    user, round_, _ = draw.choice(sorted(left))
    mine = sorted((t, n) for u, t, n in left if u == user)
    kind = draw.choice(("all", "rounds", "count", "samples"))
    if kind == "all":
        return Request(user)
    if kind == "rounds":
        return Request(user, rounds=(round_,))
    if kind == "count":
        held = sum(t == round_ for t, _ in mine)
        return Request(user, rounds=(round_,), count=draw.randint(1, held))
    return Request(user, samples=tuple(sorted(draw.sample(mine, min(len(mine), draw.randint(1, 4))))))
