"""Sums readings up to joules, without a clock, a thread or a file of its own."""

from collections.abc import Callable, Sequence
from typing import Protocol

from cause.errors import MeterError


class Tally(Protocol):
    """Sums readings up to joules."""

    joules: float
    readings: int

    def add(self, now_s: float) -> None:
        """Take a reading at a time."""


class PowerTally:
    """Integrates power over time by trapezoids.

    >>> watts = iter([10.0, 20.0, 20.0])
    >>> tally = PowerTally(lambda: next(watts))
    >>> for now in (0.0, 1.0, 3.0):
    ...     tally.add(now)
    >>> tally.joules, tally.readings
    (55.0, 3)
    """

    def __init__(self, read_watts: Callable[[], float]) -> None:
        self._read, self._last = read_watts, (0.0, 0.0)
        self.joules, self.readings = 0.0, 0

    def add(self, now_s: float) -> None:
        """Read the power now, and add what was used since the last reading."""
        watts = self._read()
        if self.readings:
            before_s, before_w = self._last
            self.joules += (watts + before_w) / 2 * (now_s - before_s)
        self._last = now_s, watts
        self.readings += 1


class CounterTally:
    """Adds up what several energy counters advanced by; one that came out lower has wrapped around once.

    >>> values = iter([[90.0], [95.0], [5.0]])
    >>> tally = CounterTally(lambda: next(values), wraps_at=[100.0])
    >>> for now in (0.0, 1.0, 2.0):
    ...     tally.add(now)
    >>> tally.joules
    15.0
    """

    def __init__(self, read_joules: Callable[[], Sequence[float]], wraps_at: Sequence[float | None]) -> None:
        self._read, self._wraps_at = read_joules, wraps_at
        self._last: Sequence[float] = ()
        self.joules, self.readings = 0.0, 0

    def add(self, now_s: float) -> None:
        """Read the counters, and add what they advanced by."""
        values = self._read()
        if self.readings:
            self.joules += sum(map(advance, self._last, values, self._wraps_at))
        self._last = values
        self.readings += 1


def advance(before: float, now: float, wraps_at: float | None) -> float:
    """Return by how much a counter advanced.

    >>> advance(90.0, 5.0, 100.0), advance(5.0, 9.0, None)
    (15.0, 4.0)
    >>> advance(9.0, 5.0, None)
    Traceback (most recent call last):
    cause.errors.MeterError: the energy counter went back from 9.0 J to 5.0 J: was its driver loaded anew?
    """
    if now >= before:
        return now - before
    if wraps_at is None or before > wraps_at:
        raise MeterError(f"the energy counter went back from {before} J to {now} J: was its driver loaded anew?")
    return wraps_at - before + now
