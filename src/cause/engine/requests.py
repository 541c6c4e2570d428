"""What users ask to be forgotten, and which samples that means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cause.common import positions as pos
from cause.common.positions import Positions
from cause.engine.ledger import Ledger, Selection
from cause.errors import RequestError

LONGEST_NONCE = 128


@dataclass(frozen=True, slots=True)
class Request:
    """Forget a user's everything, some rounds, the lowest `count` samples of one round, or named samples.

    Samples are named by the handles that a device with a home gave to them, or by (round, position). A position is not
    the row's number in the upload: in a home it is a random number, in memory a rank by digest.

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
    exact: bool = field(default=False, repr=False)
    """Only the very name; otherwise all stored names are meant that are the same (`cause.common.names.fold`)."""

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
    found: dict[tuple[str, int], Positions] = {}
    left = request.count
    for name in _names(ledger, request):
        for round_ in ledger.rounds_of(name):
            held = _held(ledger, name, round_, {})
            if request.samples is not None or request.handles is not None:
                if request.handles is not None:
                    known = ledger.handles_of(name, round_)
                    positions = [known[handle] for handle in request.handles if handle in known]
                else:
                    positions = [position for of, position in request.samples or () if of == round_]
                asked = pos.common(held, pos.of(positions))
                found[name, round_] = _first_of_their_kind(asked, held, ledger.twins_of(name, round_))
            elif request.rounds is None or round_ in request.rounds:
                found[name, round_] = held if left is None else pos.lowest(held, min(left, len(held)))
                left = None if left is None else left - len(found[name, round_])
    return {where: doomed for where, doomed in found.items() if len(doomed)}


def _names(ledger: Ledger, request: Request) -> Sequence[str]:
    """The names of the request's user under which something is retained."""
    names = ledger.names_like(request.user)
    return [name for name in names if name == request.user] if request.exact else names


def _select(ledger: Ledger, request: Request, pending: Selection) -> Selection:
    user, names = request.user, _names(ledger, request)
    if not names:
        raise RequestError(f"unknown user {user!r}: nothing of theirs is retained")
    if request.samples is not None:
        return _named(ledger, user, _placed(ledger, user, names, request.samples), pending)
    if request.handles is not None:
        return _named(ledger, user, _with_handles(ledger, names, request.handles), pending)
    retained = sorted({round_ for name in names for round_ in ledger.rounds_of(name)})
    rounds = retained if request.rounds is None else sorted(set(request.rounds))
    held = {(name, round_): _held(ledger, name, round_, pending) for round_ in rounds for name in names}
    held = {where: positions for where, positions in held.items() if len(positions)}
    if request.rounds is None and not held:
        raise RequestError(f"nothing of user {user!r} is left to forget")
    if request.rounds is not None and (missing := [t for t in rounds if not any(of == t for _, of in held)]):
        raise RequestError(f"user {user!r} has nothing retained of round {missing[0]} (of {_listed(retained)} only)")
    if request.count is None:
        return held
    available = sum(len(positions) for positions in held.values())
    if request.count > available:
        raise RequestError(f"user {user!r} has {available} samples of round {rounds[0]}, not {request.count}")
    chosen, left = {}, request.count
    for where, positions in held.items():
        chosen[where] = pos.lowest(positions, min(left, len(positions)))
        left -= len(chosen[where])
    return {where: positions for where, positions in chosen.items() if len(positions)}


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


Place = tuple[str, int, int]
"""The name that a sample is stored under, its round and its position."""


def _named(ledger: Ledger, user: str, samples: Iterable[Place], pending: Selection) -> Selection:
    wanted: dict[tuple[str, int], list[int]] = {}
    for name, round_, position in samples:
        wanted.setdefault((name, round_), []).append(position)
    selection = {}
    for (name, round_), listed in sorted(wanted.items()):
        asked, held = pos.of(listed), _held(ledger, name, round_, pending)
        missing = pos.minus(asked, held)
        if len(missing):
            raise RequestError(f"user {user!r} has no retained sample {int(missing[0])} of round {round_}")
        selection[name, round_] = _first_of_their_kind(asked, held, ledger.twins_of(name, round_))
    return selection


def _placed(ledger: Ledger, user: str, names: Sequence[str], samples: Iterable[tuple[int, int]]) -> list[Place]:
    """Samples by (round, position), with the name that each is stored under."""
    holders = {round_: [name for name in names if round_ in ledger.rounds_of(name)] for round_, _ in samples}
    for round_, found in holders.items():
        if len(found) > 1:
            raise RequestError(
                f"round {round_} holds samples of user {user!r} under {len(found)} ways to write the name, so that a "
                "position may mean several: name the samples by their handles"
            )
    return [((holders[round_] or [user])[0], round_, position) for round_, position in samples]


def _with_handles(ledger: Ledger, names: Sequence[str], handles: Sequence[str]) -> list[Place]:
    """The retained samples with these handles; a handle that none has is left out."""
    wanted = set(handles)
    found: list[Place] = []
    for name in names:
        for round_ in ledger.rounds_of(name):
            if len(found) < len(wanted):
                known = ledger.handles_of(name, round_)
                found += [(name, round_, known[handle]) for handle in wanted if handle in known]
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
