"""Looks up what requests name: users by their stored names, and samples by round, position or handle."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cause.common.names import check_user, normal_name
from cause.engine.ledger import Selection
from cause.engine.requests import Request, resolve
from cause.engine.state import State
from cause.errors import RequestError

if TYPE_CHECKING:
    from cause.device.home.home import Home


class Lookup:
    """Finds what requests name. It changes nothing; the caller holds the lock of the state.

    Parameters
    ----------
    state
        The ledger of the retained samples, and the journal that knows the staged ones.
    home
        The home of the device; None if it is in memory.
    """

    def __init__(self, state: State, home: "Home | None") -> None:
        self._state, self._ledger, self._home = state, state.ledger, home

    def selections(self, requests: Sequence[Request], *, lenient: bool = False) -> list[Selection]:
        """Return the samples that each request names; none for a request that names staged samples only.

        Raises
        ------
        RequestError
            If nothing is held of a user (unless `lenient` allows it), or not all that was named.
        """
        journal = self._state.journal
        only_staged = [
            (
                request.everything
                and not self._ledger.names_like(request.user)
                and (lenient or journal.staged(request.user) > 0)
            )
            or (request.handles is not None and self._all_staged(request.user, request.handles))
            for request in requests
        ]
        learned = [request for request, staged in zip(requests, only_staged, strict=True) if not staged]
        selections = iter(resolve(self._ledger, learned))
        return [{} if staged else next(selections) for staged in only_staged]

    def _all_staged(self, user: str, handles: Sequence[str]) -> bool:
        """Return whether all samples with these handles are staged; RequestError for an unknown handle."""
        rest = set(handles) - self._state.journal.staged_handles(user)
        places = [(name, t) for name in self._ledger.names_like(user) for t in self._ledger.rounds_of(name)]
        held = rest and {handle for name, t in places for handle in self._ledger.handles_of(name, t)}
        if missing := sorted(rest - set(held)):
            raise RequestError(f"user {user!r} has no sample with the handle {missing[0]!r}")
        return not rest

    def name_of(self, user: str) -> str:
        """Return a user's name as the device stores it: in normal form, or as written if an older home holds that."""
        check_user(user)
        held = bool(self._ledger.rounds_of(user)) if self._home is None else self._home.holds_name(user)
        return user if held else normal_name(user)
