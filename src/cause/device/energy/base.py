"""The base class of meters, and the record of a measurement."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from cause.errors import MeterError


@dataclass(frozen=True)
class Measurement:
    """The time and energy of a piece of work. If the energy is unknown, `joules` is None and the reason is given.

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
    """A measurement under way; `record` can be read when the `with` block has ended."""

    def __init__(self) -> None:
        self._record: Measurement | None = None

    def finish(self, record: Measurement) -> None:
        """End the measurement with this record."""
        self._record = record

    @property
    def record(self) -> Measurement:
        """The finished measurement."""
        if self._record is None:
            raise MeterError("a measurement has its record when its 'with' block has ended")
        return self._record


class Meter(Protocol):
    """Measures the energy that a machine, or a part of it, takes."""

    @property
    def source(self) -> str:
        """What the meter reads, and which part of the machine that covers."""

    @property
    def sampling_hz(self) -> float | None:
        """Readings per second during a measurement; None if nothing is read."""

    @property
    def idle_watts(self) -> float | None:
        """Power of the idle machine; None if it was not measured."""

    @property
    def unavailable(self) -> str | None:
        """Why energy cannot be measured; None if it can."""

    def measure(self) -> AbstractContextManager[Running]:
        """Measure the `with` block."""
