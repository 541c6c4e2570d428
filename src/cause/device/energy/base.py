"""The seam of all meters, and the record of a measurement."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from cause.errors import MeterError


@dataclass(frozen=True)
class Measurement:
    """What a meter saw of a piece of work. Where energy is unknown, the reason is there and no number.

    >>> Measurement("RAPL package-0", seconds=2.0, joules=30.0, readings=3, idle_watts=5.0).above_idle_joules
    20.0
    >>> print(Measurement("none", seconds=2.0, unavailable="no meter").mean_watts)
    None
    """

    source: str
    seconds: float
    joules: float | None = None
    readings: int = 0
    idle_watts: float | None = None
    unavailable: str | None = None

    @property
    def mean_watts(self) -> float | None:
        """Mean power, idle included."""
        return None if self.joules is None or self.seconds <= 0 else self.joules / self.seconds

    @property
    def above_idle_joules(self) -> float | None:
        """Energy beyond what the idle machine would have taken; all of it where idle power is unknown."""
        return None if self.joules is None else self.joules - (self.idle_watts or 0.0) * self.seconds


class Running:
    """A measurement under way; its record is there when the `with` block has ended."""

    def __init__(self) -> None:
        self._record: Measurement | None = None

    def finish(self, record: Measurement) -> None:
        """End it."""
        self._record = record

    @property
    def record(self) -> Measurement:
        """What was measured."""
        if self._record is None:
            raise MeterError("a measurement has its record when its 'with' block has ended")
        return self._record


class Meter(Protocol):
    """Measures the energy that a machine, or a part of it, takes."""

    @property
    def source(self) -> str:
        """What is read, and what of the machine it covers."""

    @property
    def sampling_hz(self) -> float | None:
        """Readings a second while a measurement runs; None where nothing is read."""

    @property
    def idle_watts(self) -> float | None:
        """Power of the idle machine, where it was measured."""

    @property
    def unavailable(self) -> str | None:
        """Why there is no energy to be had, or None."""

    def measure(self) -> AbstractContextManager[Running]:
        """Measure what happens in the `with` block."""
