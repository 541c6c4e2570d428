"""Rules for when to repair, as pure functions: clocks, meters and load averages are arguments."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cause.errors import InputError

TIMES = ("now", "idle", "deadline")
IDLE_LOAD = 0.5
"""Load average a core below which a machine counts as idle."""
MARGIN_S = 7 * 86_400.0
"""How near a deadline must be before a repair that waits for it begins: a week."""
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_JOULES = {"J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3.6e3, "kWh": 3.6e6}


def parse_duration(text: str) -> float:
    """Parse a duration, and return its seconds.

    >>> parse_duration("10m"), parse_duration("1.5 h"), parse_duration("7d")
    (600.0, 5400.0, 604800.0)
    >>> parse_duration("soon")
    Traceback (most recent call last):
    cause.errors.InputError: not a duration: 'soon' (write it like 90s, 10m, 2h or 7d)
    """
    return _parsed(text, _SECONDS, "a duration", "90s, 10m, 2h or 7d")


def parse_energy(text: str) -> float:
    """Parse an amount of energy, and return its joules.

    >>> parse_energy("500J"), parse_energy("2 kJ"), parse_energy("0.5Wh")
    (500.0, 2000.0, 1800.0)
    """
    return _parsed(text, _JOULES, "an energy", "500J, 2kJ or 0.5Wh")


def _parsed(text: str, factors: dict[str, float], what: str, examples: str) -> float:
    match = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([A-Za-z]{1,3})\s*", text, re.ASCII)
    if match is None or match[2] not in factors or not float(match[1]):
        raise InputError(f"not {what}: {text!r} (write it like {examples})")
    return float(match[1]) * factors[match[2]]


def idle(load: float, cores: int, threshold: float = IDLE_LOAD, own: int = 0) -> bool:
    """Return whether a machine has little to do; `own` processes of ours do not count.

    Parameters
    ----------
    load
        The load average.
    cores
        How many cores the machine has.
    threshold
        The load a core below which it is idle.
    own
        How many processes of ours are running.

    Examples
    --------
    >>> idle(0.9, cores=4), idle(2.5, cores=4), idle(2.5, cores=4, own=1)
    (True, False, True)
    """
    return max(0.0, load - own) / cores < threshold


def margin_of(deadline_s: float) -> float:
    """Return how long before a deadline a repair begins: a week, but at most a quarter of the whole time.

    >>> margin_of(30 * 86_400.0) / 86_400, margin_of(86_400.0) / 3_600
    (7.0, 6.0)
    """
    return min(MARGIN_S, deadline_s / 4)


def due(deadlines: Iterable[float], now: float, margin_s: float = MARGIN_S) -> bool:
    """Return whether a deadline is nearer than the margin, or past.

    >>> due([1_000.0, 5_000.0], now=900.0, margin_s=60.0), due([1_000.0], now=950.0, margin_s=60.0), due([], now=0.0)
    (False, True, False)
    """
    return any(deadline - now < margin_s for deadline in deadlines)


def may_begin(when: str, *, is_idle: Callable[[], bool], is_due: Callable[[], bool]) -> bool:
    """Return whether a repair may begin now; `cause repair` and the service use this rule.

    Parameters
    ----------
    when
        `now`, `idle` (if the machine is idle; a near deadline beats that) or `deadline` (if one is near). For any other
        value a repair waits until a command or a call starts it.
    is_idle
        Asked for `idle` alone: whether the machine has little to do.
    is_due
        Asked only where it decides: whether a deadline is near.

    Examples
    --------
    >>> may_begin("idle", is_idle=lambda: False, is_due=lambda: True)
    True
    >>> may_begin("deadline", is_idle=lambda: True, is_due=lambda: False)
    False
    """
    if when == "now":
        return True
    if when == "idle":
        return is_idle() or is_due()
    return when == "deadline" and is_due()


@dataclass(frozen=True)
class Allowance:
    """The time and energy that a repair may take; None is without limit."""

    within_s: float | None = None
    energy_j: float | None = None

    def spent(
        self, taken_s: float, taken_j: float | None = None, next_s: float = 0.0, next_j: float = 0.0
    ) -> str | None:
        """Return why the next segment must wait, or None if it fits into the allowance.

        Parameters
        ----------
        taken_s, taken_j
            Seconds and joules that were taken so far; None if the joules were not measured.
        next_s, next_j
            What the next segment is expected to take.

        Examples
        --------
        >>> allowance = Allowance(within_s=600.0)
        >>> allowance.spent(500.0), allowance.spent(500.0, next_s=200.0)
        (None, '500 s taken and about 200 s more for the next segment, of 600 s')
        """
        if self.within_s is not None and taken_s + next_s > self.within_s:
            return f"{taken_s:.0f} s taken and about {next_s:.0f} s more for the next segment, of {self.within_s:.0f} s"
        if self.energy_j is not None and (taken_j is None or taken_j + next_j > self.energy_j):
            taken = "an unknown number of J" if taken_j is None else f"{taken_j:.0f} J"
            return f"{taken} taken and about {next_j:.0f} J more for the next segment, of {self.energy_j:.0f} J"
        return None


def expected(taken: float, samples: int, next_samples: int) -> float:
    """Return what the next segment will take if a sample costs as much as so far; 0 before the first one.

    >>> expected(30.0, samples=60, next_samples=10), expected(0.0, samples=0, next_samples=10)
    (5.0, 0.0)
    """
    value = taken / samples * next_samples if samples > 0 else 0.0
    return value if math.isfinite(value) else 0.0
