"""What users ask to be forgotten, and which samples that means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cause import positions as pos
from cause.errors import RequestError
from cause.ledger import Ledger, Selection
from cause.positions import Positions

LONGEST_NONCE = 128


@dataclass(frozen=True, slots=True)
class Request:
    """Forget a user's everything, some rounds, the lowest `count` samples of one round, or named samples.

    Samples are named by (round, position), or by the handles that a device with a home gave to them.

    >>> Request("u7").everything, Request("u7", rounds=(1, 2)).rounds, Request("u7", rounds=(1,), count=5).count
    (True, (1, 2), 5)
    """

    user: str
    rounds: tuple[int, ...] | None = None
    count: int | None = None
    samples: tuple[tuple[int, int], ...] | None = None  # (round, position)
    handles: tuple[str, ...] | None = None
    nonce: str | None = field(default=None, repr=False)
    """What whoever asks has drawn for this request: the receipt commits to it, and so to whose request it answers."""

    def __post_init__(self) -> None:
        if self.nonce is not None:
            check_nonce(self.nonce)
        numbers = [*(self.rounds or ()), *(n for sample in self.samples or () for n in sample)]
        for number in numbers if self.count is None else [*numbers, self.count]:
            if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 2**63:
                raise RequestError(f"rounds, positions and counts are whole numbers, not {number!r}")
        if self.samples is not None and (self.rounds is not None or self.count is not None):
            raise RequestError("name either samples or rounds, not both")
        if self.count is not None and (self.rounds is None or len(set(self.rounds)) != 1):
            raise RequestError("a count of samples needs exactly one round to take them from")
        if self.count is not None and self.count < 1:
            raise RequestError(f"a request must name at least one sample, not {self.count}")
        if self.handles is not None and (self.rounds, self.count, self.samples) != (None, None, None):
            raise RequestError("name samples by their handles, or rounds, or positions, not several of them")
        for handle in self.handles or ():
            if not isinstance(handle, str) or not 0 < len(handle) <= 64:
                raise RequestError(f"a handle is text as an upload answered with, not {str(handle)[:80]!r}")
        if self.rounds == () or self.samples == () or self.handles == ():
            raise RequestError(f"nothing to forget: the request of user {self.user!r} names no sample")

    @property
    def everything(self) -> bool:
        """Does it name no rounds and no samples, and so mean all that there is of the user?"""
        return self.rounds is None and self.samples is None and self.handles is None


def check_nonce(nonce: str) -> None:
    """Refuse what is no text of 1 to 128 characters."""
    ok = isinstance(nonce, str) and 1 <= len(nonce) <= LONGEST_NONCE
    if not ok or any("\ud800" <= each <= "\udfff" for each in nonce):
        raise RequestError(f"a nonce is a text of 1 to {LONGEST_NONCE} characters, not {str(nonce)[:40]!r}")


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


def still_held(ledger: Ledger, selection: Selection) -> Selection:
    """What is retained of a selection that was made earlier."""
    left = {(user, t): pos.common(_held(ledger, user, t, {}), doomed) for (user, t), doomed in selection.items()}
    return {where: doomed for where, doomed in left.items() if len(doomed)}


def remaining(ledger: Ledger, request: Request) -> Selection:
    """What is retained of what a request means; others may have taken some of it since it was accepted."""
    user, found = request.user, {}
    for round_ in ledger.rounds_of(user):
        held = _held(ledger, user, round_, {})
        if request.samples is not None or request.handles is not None:
            if request.handles is not None:
                known = ledger.handles_of(user, round_)
                positions = [known[handle] for handle in request.handles if handle in known]
            else:
                positions = [position for of, position in request.samples or () if of == round_]
            asked = pos.common(held, pos.of(positions))
            found[user, round_] = _first_of_their_kind(asked, held, ledger.twins_of(user, round_))
        elif request.rounds is None or round_ in request.rounds:
            found[user, round_] = held if request.count is None else pos.lowest(held, min(request.count, len(held)))
    return {where: doomed for where, doomed in found.items() if len(doomed)}


def _select(ledger: Ledger, request: Request, pending: Selection) -> Selection:
    user = request.user
    retained = ledger.rounds_of(user)
    if not retained:
        raise RequestError(f"unknown user {user!r}: nothing of theirs is retained")
    if request.samples is not None:
        return _named(ledger, user, request.samples, pending)
    if request.handles is not None:
        return _named(ledger, user, _with_handles(ledger, user, request.handles), pending)
    rounds = retained if request.rounds is None else sorted(set(request.rounds))
    held = {round_: _held(ledger, user, round_, pending) for round_ in rounds}
    if request.rounds is None:
        held = {round_: positions for round_, positions in held.items() if len(positions)}
        if not held:
            raise RequestError(f"nothing of user {user!r} is left to forget")
    for round_, positions in held.items():
        if not len(positions):
            raise RequestError(f"user {user!r} has nothing retained of round {round_} (of {_listed(retained)} only)")
    if request.count is None:
        return {(user, round_): positions for round_, positions in held.items()}
    ((round_, available),) = held.items()
    if request.count > len(available):
        raise RequestError(f"user {user!r} has {len(available)} samples of round {round_}, not {request.count}")
    return {(user, round_): pos.lowest(available, request.count)}


def _held(ledger: Ledger, user: str, round_: int, pending: Selection) -> Positions:
    held = pos.union([positions for _, positions in ledger.pieces_of(user, round_)])
    return pos.minus(held, pending.get((user, round_), range(0)))


def merged(selections: Iterable[Selection]) -> Selection:
    """Several selections as one."""
    found: dict[tuple[str, int], Positions] = {}
    for selection in selections:
        for where, doomed in selection.items():
            found[where] = pos.union([found.get(where, range(0)), doomed])
    return found


def _named(ledger: Ledger, user: str, samples: Iterable[tuple[int, int]], pending: Selection) -> Selection:
    wanted: dict[int, list[int]] = {}
    for round_, position in samples:
        wanted.setdefault(round_, []).append(position)
    selection = {}
    for round_, listed in sorted(wanted.items()):
        asked, held = pos.of(listed), _held(ledger, user, round_, pending)
        missing = pos.minus(asked, held)
        if len(missing):
            raise RequestError(f"user {user!r} has no retained sample {int(missing[0])} of round {round_}")
        selection[user, round_] = _first_of_their_kind(asked, held, ledger.twins_of(user, round_))
    return selection


def _with_handles(ledger: Ledger, user: str, handles: Sequence[str]) -> list[tuple[int, int]]:
    """The retained samples with these handles, as (round, position); a handle that none has is left out."""
    wanted = set(handles)
    found: list[tuple[int, int]] = []
    for round_ in ledger.rounds_of(user):
        if len(found) < len(wanted):
            known = ledger.handles_of(user, round_)
            found += [(round_, known[handle]) for handle in wanted if handle in known]
    return found


def _first_of_their_kind(asked: Positions, held: Positions, twins: Mapping[int, bytes]) -> Positions:
    """Of identical samples the lowest position goes first, whichever was named: then what is left has the ids that it
    would have had without the others."""
    if not twins:
        return asked
    kinds: dict[bytes, list[int]] = {}
    for position in pos.array(held).tolist():
        kinds.setdefault(twins[position], []).append(position)
    return pos.of(kinds[twins[position]].pop(0) for position in pos.array(asked).tolist())


def _listed(rounds: Iterable[int], most: int = 8) -> str:
    names = [str(round_) for round_ in rounds]
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
