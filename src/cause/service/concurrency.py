"""How many there are at once, in all and of each name."""

from collections import Counter

from cause.service.problems import ProblemError


class Crowd:
    """Counts who is in; on one event loop.

    >>> streams = Crowd("streams", most=2, each=1)
    >>> streams.enter("a"), streams.enter("a").status, streams.enter("b"), streams.enter("c").status
    (None, 429, None, 503)
    >>> streams.leave("a")
    >>> streams.enter("c")
    """

    def __init__(self, what: str, most: int, each: int) -> None:
        self._what, self._most, self._each = what, most, each
        self._inside: Counter[str | None] = Counter()
        self._all = 0

    def enter(self, name: str | None) -> ProblemError | None:
        """Come in, or be told why not; one without a name counts among all only."""
        if self._all >= self._most:
            return ProblemError(503, f"too many {self._what} at once: at most {self._most}", {"Retry-After": "1"})
        if name is not None and self._inside[name] >= self._each:
            told = f"too many {self._what} at once with this token: at most {self._each}"
            return ProblemError(429, told, {"Retry-After": "1"})
        self._all += 1
        self._inside[name] += 1
        return None

    def leave(self, name: str | None) -> None:
        self._all -= 1
        self._inside[name] -= 1
        if not self._inside[name]:
            del self._inside[name]
