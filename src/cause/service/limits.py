"""Rates: a bucket for each token or address, filled as time passes."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

KEPT = 10_000
"""Buckets that are remembered; those used longest ago go first, and they are full again by then."""


class Rate:
    """So many a second for each name, and twice that at once, or as many as is said.

    >>> now = [0.0]
    >>> rate = Rate(1.0, clock=lambda: now[0])
    >>> [rate.taken("a") for _ in range(3)], rate.taken("b")
    ([0, 0, 1], 0)
    >>> now[0] = 1.0
    >>> rate.taken("a")
    0
    """

    def __init__(self, per_s: float, most: float | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._most, self._clock = per_s, max(1.0, 2 * per_s) if most is None else most, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def taken(self, name: str, cost: float = 1.0) -> int:
        """Take one: 0, or in how many seconds to come back."""
        now = self._clock()
        with self._lock:
            left, at = self._left.pop(name, (self._most, now))
            left = min(self._most, left + (now - at) * self._per_s)
            wait = 0 if left >= cost else max(1, math.ceil((cost - left) / self._per_s))
            self._left[name] = (left if wait else left - cost, now)
            if len(self._left) > KEPT:
                self._left.popitem(last=False)
        return wait
