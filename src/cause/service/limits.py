"""Limits of the service: bytes in memory, requests at once, turns of one token, requests per second."""

import asyncio
import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

from cause.service.problems import ProblemError

UNCOUNTED_BYTES = 65_536
"""A reservation of at most so many bytes is not counted: small requests pass however full the budget is, and the
number of requests at once is limited, too."""
MOST_BUCKETS = 10_000
"""Buckets that a `RateLimiter` keeps. The least recently used are dropped first; they are full again by then."""


class MemoryBudget:
    """Bytes that all requests together may hold; a request that does not fit is refused, not queued.

    One token may hold three quarters of the budget. A reservation that is the only one may exceed both limits, since it
    could never be served otherwise.

    Parameters
    ----------
    most_bytes
        What all reservations may hold together.

    Examples
    --------
    >>> budget = MemoryBudget(1_000_000)
    >>> mine, yours, small = budget.reserve("me"), budget.reserve("you"), budget.reserve("you")
    >>> mine.resize(900_000), yours.resize(200_000), small.resize(1_000), budget.held_bytes
    (True, False, True, 900000)
    >>> mine.release()
    >>> yours.resize(2_000_000)
    True
    >>> yours.resize(500_000), budget.reserve("you").resize(300_000), budget.reserve("me").resize(300_000)
    (True, False, True)
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._most_bytes_per_token = most_bytes, most_bytes * 3 // 4
        self._lock = threading.Lock()
        self._held_by_token: Counter[str] = Counter()
        self.held_bytes = 0

    @property
    def most_bytes(self) -> int:
        """What all reservations may hold together."""
        return self._most_bytes

    def reserve(self, token: str) -> "Reservation":
        """Return an empty reservation for a request of this token."""
        return Reservation(self, token)

    def change(self, token: str, before: int, after: int) -> bool:
        """Change one reservation of a token from `before` to `after` bytes; return whether there was room for it."""
        with self._lock:
            others = self.held_bytes - before
            others_of_token = self._held_by_token[token] - before
            over_budget = others and others + after > self._most_bytes
            over_share = others_of_token and others_of_token + after > self._most_bytes_per_token
            if after > before and (over_budget or over_share):
                return False
            self.held_bytes, self._held_by_token[token] = others + after, others_of_token + after
            if not self._held_by_token[token]:
                del self._held_by_token[token]
            return True


class Reservation:
    """The bytes of a `MemoryBudget` that one request holds."""

    def __init__(self, budget: MemoryBudget, token: str) -> None:
        self._budget, self._token, self._counted_bytes = budget, token, 0

    def resize(self, size: int) -> bool:
        """Hold `size` bytes in all from now on.

        Returns
        -------
        False if there is no room: the reservation is then as before.
        """
        counted = size if size > UNCOUNTED_BYTES else 0
        if not self._budget.change(self._token, self._counted_bytes, counted):
            return False
        self._counted_bytes = counted
        return True

    def release(self) -> None:
        """Give all bytes back. A second call changes nothing."""
        self.resize(0)


class ConcurrencyLimit:
    """Limits how many requests are under way at once, in all and for each token. For one event loop, without a lock.

    Parameters
    ----------
    what
        What is limited, in the plural, for messages; also the name of the setting.
    most
        The limit for all.
    most_per_token
        The limit for one token.

    Examples
    --------
    >>> streams = ConcurrencyLimit("streams", most=2, most_per_token=1)
    >>> streams.enter("a"), streams.enter("a").status, streams.enter("b"), streams.enter("c").status
    (None, 429, None, 503)
    >>> streams.leave("a")
    >>> streams.enter("c")
    """

    def __init__(self, what: str, most: int, most_per_token: int) -> None:
        self._what, self._most, self._most_per_token = what, most, most_per_token
        self._under_way: Counter[str | None] = Counter()
        self._total = 0

    def configure(self, most: int, most_per_token: int) -> None:
        """Use other limits from now on; requests that are under way are not ended."""
        self._most, self._most_per_token = most, most_per_token

    def enter(self, token: str | None) -> ProblemError | None:
        """Count one more request; a request without a token counts towards the limit for all only.

        Returns
        -------
        None, or the problem to answer with when a limit is reached: the request is then not counted.
        """
        if self._total >= self._most:
            detail = f"too many {self._what} at once: at most {self._most} (setting `{self._what}`)"
            return ProblemError(503, detail, {"Retry-After": "1"})
        if token is not None and self._under_way[token] >= self._most_per_token:
            limit = f"at most {self._most_per_token} (of the setting `{self._what}`)"
            detail = f"too many {self._what} at once with this token: {limit}"
            return ProblemError(429, detail, {"Retry-After": "1"})
        self._total += 1
        self._under_way[token] += 1
        return None

    def leave(self, token: str | None) -> None:
        """Count one request less: call it once for each `enter` that returned None."""
        self._total -= 1
        self._under_way[token] -= 1
        if not self._under_way[token]:
            del self._under_way[token]


class PerTokenSemaphore:
    """One semaphore per token: extra requests of one client queue behind each other, not before those of others.

    For one event loop. A semaphore that nobody holds or waits for is dropped.

    Examples
    --------
    >>> semaphores = PerTokenSemaphore(1)
    >>> semaphores.of("a") is semaphores.of("b")
    False
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._semaphores)

    def of(self, token: str) -> asyncio.Semaphore:
        """Return the semaphore of a token, to use with `async with`."""
        return self._semaphores.setdefault(token, asyncio.Semaphore(self._most))


class RateLimiter:
    """A token bucket for each name (a token's id, or an address). Safe to use from several threads.

    Parameters
    ----------
    per_s
        Requests a second for each name.
    burst
        Requests at once; twice `per_s`, and at least 1, by default.
    clock
        Returns seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> limiter = RateLimiter(1.0, clock=lambda: now[0])
    >>> [limiter.take("a") for _ in range(3)], limiter.take("b")
    ([0, 0, 1], 0)
    >>> now[0] = 1.0
    >>> limiter.take("a")
    0
    """

    def __init__(
        self, per_s: float, burst: float | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, max(1.0, 2 * per_s) if burst is None else burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by name: what is left, and when
        self._lock = threading.Lock()

    @property
    def per_s(self) -> float:
        """Requests a second for each name."""
        return self._per_s

    def configure(self, per_s: float, burst: float | None = None) -> None:
        """Use another rate and burst from now on; what was taken before still counts."""
        with self._lock:
            self._per_s, self._burst = per_s, max(1.0, 2 * per_s) if burst is None else burst

    def take(self, name: str, cost: float = 1.0) -> int:
        """Take one request out of a name's bucket; return 0, or after how many seconds to try again."""
        now = self._clock()
        with self._lock:
            left, at = self._buckets.pop(name, (self._burst, now))
            left = min(self._burst, left + (now - at) * self._per_s)
            wait = 0 if left >= cost else max(1, math.ceil((cost - left) / self._per_s))
            self._buckets[name] = (left if wait else left - cost, now)
            if len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
        return wait
