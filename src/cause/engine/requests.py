"""Requests to forget, and the retained samples that they select."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cause.common import positions as pos
from cause.common.positions import Positions
from cause.engine.ledger import Ledger, Selection
from cause.errors import RequestError

LONGEST_NONCE = 128


@dataclass(frozen=True, slots=True)
class Request:
    """Forget all samples of a user, some rounds, the lowest `count` samples of one round, or named samples.

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
    """A random text that the requester drew for this request. The receipt commits to it, so the requester can prove
    which receipt answers the request."""
    exact: bool = field(default=False, repr=False)
    """If true, only samples under exactly this name; else under every name that is equal to it when it is folded
    (`cause.common.names.fold`)."""
    expiry: bool = field(default=False, repr=False)
    """Whether the request comes from the retention period, not from a user; a policy does not learn from it."""

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
        """Whether the request names no rounds and no samples, and so means all samples of the user."""
        return self.rounds is None and self.samples is None and self.handles is None


def check_nonce(nonce: str) -> None:
    """Raise a `RequestError` unless the nonce is a text of 1 to 128 characters without surrogates."""
    ok = isinstance(nonce, str) and 1 <= len(nonce) <= LONGEST_NONCE
    if not ok or any("\ud800" <= character <= "\udfff" for character in nonce):
        raise RequestError(f"a nonce is a text of 1 to {LONGEST_NONCE} characters, not {str(nonce)[:40]!r}")


def resolve(ledger: Ledger, requests: Sequence[Request]) -> list[Selection]:
    """Return the samples that each request selects; change nothing.

    A request cannot select samples that an earlier one of the list selects.

    Raises
    ------
    RequestError
        If a request names a user, a round or samples of which nothing is retained.
    """
    pending: dict[tuple[str, int], Positions] = {}
    selections: list[Selection] = []
    for request in requests:
        selection = _select(ledger, request, pending)
        for upload, positions in selection.items():
            pending[upload] = pos.union([pending.get(upload, range(0)), positions])
        selections.append(selection)
    return selections


def still_held(ledger: Ledger, selection: Selection) -> Selection:
    """Return the part of an earlier selection that is still retained."""
    left = {
        (user, round_): pos.common(_held(ledger, user, round_, {}), positions)
        for (user, round_), positions in selection.items()
    }
    return _without_empty(left)


def remaining(ledger: Ledger, request: Request) -> Selection:
    """Return the samples of an accepted request that are still retained; other requests may have deleted some."""
    selection: dict[tuple[str, int], Positions] = {}
    left = request.count
    for name in _names(ledger, request):
        for round_ in ledger.rounds_of(name):
            held = _held(ledger, name, round_, {})
            if request.samples is not None or request.handles is not None:
                if request.handles is not None:
                    position_of = ledger.handles_of(name, round_)
                    named = [position_of[handle] for handle in request.handles if handle in position_of]
                else:
                    named = [position for of, position in request.samples or () if of == round_]
                still_named = pos.common(held, pos.from_values(named))
                selection[name, round_] = _lowest_of_twins(still_named, held, ledger.twins_of(name, round_))
            elif request.rounds is None or round_ in request.rounds:
                selection[name, round_] = held if left is None else pos.lowest(held, min(left, len(held)))
                left = None if left is None else left - len(selection[name, round_])
    return _without_empty(selection)


def _names(ledger: Ledger, request: Request) -> Sequence[str]:
    """Return the names of the request's user under which samples are retained."""
    names = ledger.names_like(request.user)
    return [name for name in names if name == request.user] if request.exact else names


def _select(ledger: Ledger, request: Request, pending: Selection) -> Selection:
    """Return the samples of one request, without those in `pending`."""
    user, names = request.user, _names(ledger, request)
    if not names:
        raise RequestError(f"unknown user {user!r}: nothing of theirs is retained")
    if request.samples is not None:
        return _select_places(ledger, user, _places_of(ledger, user, names, request.samples), pending)
    if request.handles is not None:
        return _select_places(ledger, user, _places_of_handles(ledger, names, request.handles), pending)
    retained = sorted({round_ for name in names for round_ in ledger.rounds_of(name)})
    rounds = retained if request.rounds is None else sorted(set(request.rounds))
    held = {(name, round_): _held(ledger, name, round_, pending) for round_ in rounds for name in names}
    held = _without_empty(held)
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
    for upload, positions in held.items():
        chosen[upload] = pos.lowest(positions, min(left, len(positions)))
        left -= len(chosen[upload])
    return _without_empty(chosen)


def _without_empty(selection: Selection) -> dict[tuple[str, int], Positions]:
    return {upload: positions for upload, positions in selection.items() if len(positions)}


def _held(ledger: Ledger, user: str, round_: int, pending: Selection) -> Positions:
    """Return the retained positions of an upload, without those in `pending`."""
    held = pos.union([positions for _, positions in ledger.pieces_of(user, round_)])
    return pos.minus(held, pending.get((user, round_), range(0)))


def merged(selections: Iterable[Selection]) -> Selection:
    """Return the union of several selections."""
    union: dict[tuple[str, int], Positions] = {}
    for selection in selections:
        for upload, positions in selection.items():
            union[upload] = pos.union([union.get(upload, range(0)), positions])
    return union


Place = tuple[str, int, int]
"""The name that a sample is stored under, its round and its position."""


def _select_places(ledger: Ledger, user: str, places: Iterable[Place], pending: Selection) -> Selection:
    """Return these samples as a selection; a `RequestError` if one of them is not retained."""
    by_upload: dict[tuple[str, int], list[int]] = {}
    for name, round_, position in places:
        by_upload.setdefault((name, round_), []).append(position)
    selection = {}
    for (name, round_), listed in sorted(by_upload.items()):
        named, held = pos.from_values(listed), _held(ledger, name, round_, pending)
        missing = pos.minus(named, held)
        if len(missing):
            raise RequestError(f"user {user!r} has no retained sample {int(missing[0])} of round {round_}")
        selection[name, round_] = _lowest_of_twins(named, held, ledger.twins_of(name, round_))
    return selection


def _places_of(ledger: Ledger, user: str, names: Sequence[str], samples: Iterable[tuple[int, int]]) -> list[Place]:
    """Return the place of each (round, position): the name that it is stored under is added."""
    names_in = {round_: [name for name in names if round_ in ledger.rounds_of(name)] for round_, _ in samples}
    for round_, spellings in names_in.items():
        if len(spellings) > 1:
            raise RequestError(
                f"round {round_} holds samples of user {user!r} under {len(spellings)} ways to write the name, so that "
                "a position may mean several: name the samples by their handles"
            )
    return [((names_in[round_] or [user])[0], round_, position) for round_, position in samples]


def _places_of_handles(ledger: Ledger, names: Sequence[str], handles: Sequence[str]) -> list[Place]:
    """Return the places of the retained samples with these handles; unknown handles are skipped."""
    unique = set(handles)
    places: list[Place] = []
    for name in names:
        for round_ in ledger.rounds_of(name):
            if len(places) < len(unique):
                position_of = ledger.handles_of(name, round_)
                places += [(name, round_, position_of[handle]) for handle in unique if handle in position_of]
    return places


def _lowest_of_twins(named: Positions, held: Positions, twins: Mapping[int, bytes]) -> Positions:
    """Replace each named sample by the lowest retained one that is identical to it.

    Then the retained ones have the ids that they would have had without the deleted ones.
    """
    if not twins:
        return named
    identical: dict[bytes, list[int]] = {}
    for position in pos.array(held).tolist():
        identical.setdefault(twins[position], []).append(position)
    return pos.from_values(identical[twins[position]].pop(0) for position in pos.array(named).tolist())


def _listed(rounds: Iterable[int], most: int = 8) -> str:
    """Return the first rounds as text, separated by commas."""
    names = [str(round_) for round_ in rounds]
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
