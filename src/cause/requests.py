"""What users ask to be forgotten, and which samples that means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cause import positions as pos
from cause.errors import RequestError
from cause.ledger import Ledger, Selection
from cause.positions import Positions


@dataclass(frozen=True, slots=True)
class Request:
    """Forget a user's everything, some rounds, the lowest `count` samples of one round, or named samples.

    >>> Request("u7"), Request("u7", rounds=(1, 2)), Request("u7", rounds=(1,), count=5)
    (Request(user='u7', rounds=None, count=None, samples=None),
     Request(user='u7', rounds=(1, 2), count=None, samples=None),
     Request(user='u7', rounds=(1,), count=5, samples=None))
    """

    user: str
    rounds: tuple[int, ...] | None = None
    count: int | None = None
    samples: tuple[tuple[int, int], ...] | None = None  # (round, position)

    def __post_init__(self) -> None:
        if self.samples is not None and (self.rounds is not None or self.count is not None):
            raise RequestError("name either samples or rounds, not both")
        if self.count is not None and (self.rounds is None or len(set(self.rounds)) != 1):
            raise RequestError("a count of samples needs exactly one round to take them from")
        if self.count is not None and self.count < 1:
            raise RequestError(f"a request must name at least one sample, not {self.count}")
        if self.rounds == () or self.samples == ():
            raise RequestError(f"nothing to forget: the request of user {self.user!r} names no sample")


def resolve(ledger: Ledger, requests: Sequence[Request]) -> list[Selection]:
    """The samples each request means, in order: each sees what those before it will have taken.

    Everything is checked before anything is changed.
    """
    pending: dict[tuple[str, int], Positions] = {}
    selections: list[Selection] = []
    for request in requests:
        selection = _select(ledger, request, pending)
        for where, doomed in selection.items():
            pending[where] = pos.union([pending.get(where, range(0)), doomed])
        selections.append(selection)
    return selections


def _select(ledger: Ledger, request: Request, pending: Selection) -> Selection:
    user = request.user
    held = {
        round_: pos.minus(
            pos.union([held for _, held in ledger.pieces_of(user, round_)]),
            pending.get((user, round_), range(0)),
        )
        for round_ in ledger.rounds_of(user)
    }
    held = {round_: positions for round_, positions in held.items() if len(positions)}
    if not held:
        raise RequestError(f"unknown user {user!r}: nothing of theirs is retained")
    if request.samples is not None:
        return _named(user, request.samples, held)
    rounds = sorted(set(request.rounds)) if request.rounds is not None else list(held)
    for round_ in rounds:
        if round_ not in held:
            raise RequestError(f"user {user!r} has nothing retained of round {round_} (only of {_listed(held)})")
    if request.count is None:
        return {(user, round_): held[round_] for round_ in rounds}
    available = held[rounds[0]]
    if request.count > len(available):
        raise RequestError(f"user {user!r} has {len(available)} samples of round {rounds[0]}, not {request.count}")
    return {(user, rounds[0]): pos.lowest(available, request.count)}


def _named(user: str, samples: Iterable[tuple[int, int]], held: dict[int, Positions]) -> Selection:
    wanted: dict[int, list[int]] = {}
    for round_, position in samples:
        wanted.setdefault(round_, []).append(position)
    selection = {}
    for round_, listed in sorted(wanted.items()):
        asked = pos.of(listed)
        missing = pos.minus(asked, held.get(round_, range(0)))
        if len(missing):
            raise RequestError(f"user {user!r} has no retained sample {int(missing[0])} of round {round_}")
        selection[user, round_] = asked
    return selection


def _listed(rounds: Iterable[int], most: int = 8) -> str:
    names = [str(round_) for round_ in rounds]
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
