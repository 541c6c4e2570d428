"""The time of a home for calls that come often: asked of the home now and then, counted in between."""

import threading
from collections.abc import Callable

from cause.device.home.home import Home
from cause.device.store.clock import since_boot

EVERY_S = 10.0


class HomeTime:
    """Returns the time that a home goes by, in seconds since 1970.

    A home does not believe a clock that jumps (`cause.device.store.clock`). To ask it reads its tables, so it is asked
    every `EVERY_S` seconds, and the seconds since then are counted by a clock that nobody can set.

    Parameters
    ----------
    home
        The home. It is asked once before this returns.
    counter
        Seconds that no setting of the clock changes.
    ask_again
        False if the home will be closed: the seconds are only counted.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> passed = iter([100.0, 103.0, 111.0])
    >>> times = iter([5_000.0, 7_000.0])
    >>> now = HomeTime(SimpleNamespace(clock=lambda: next(times)), lambda: next(passed))
    >>> now(), now()
    (5003.0, 7000.0)
    """

    def __init__(self, home: Home, counter: Callable[[], float] = since_boot, *, ask_again: bool = True) -> None:
        self._home = home if ask_again else None
        self._counter, self._lock = counter, threading.Lock()
        self._base, self._at = home.clock(), counter()

    def __call__(self) -> float:
        """Return the time."""
        with self._lock:
            now = self._counter()
            if self._home is not None and now - self._at >= EVERY_S:
                self._base, self._at = self._home.clock(), now
            return self._base + now - self._at
