"""SampledMeter, which takes readings in a thread of its own while the measured work runs."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cause.device.energy.base import Measurement, Meter, Running
from cause.device.energy.none import NoMeter
from cause.device.energy.tally import Tally
from cause.engine.progress import Progress
from cause.errors import MeterError

LOOKS = 15
"""How often the idle machine is looked at, at most."""
FALLS = 0.003
"""By which share power is lower when it still falls: readings of an idle H200 were within so much of their mean."""
ENOUGH = 2
"""Its power has stopped falling when so many looks in a row were no lower."""


@dataclass(frozen=True)
class SampledMeter:
    """Takes readings at the start, at the end, and `sampling_hz` times a second between, in a thread of its own.

    Work is never disturbed: when a reading fails, the measurement says so instead of a number.
    """

    source: str
    sampling_hz: float
    tally: Callable[[], Tally]
    """Makes a fresh one for each measurement."""
    idle_watts: float | None = None
    unavailable: None = None
    clock: Callable[[], float] = time.perf_counter

    @contextmanager
    def measure(self) -> Iterator[Running]:
        """Measure the `with` block."""
        running, readings = Running(), _Readings(self.tally, self.clock)
        start_s = self.clock()
        readings.take()
        stop = threading.Event()
        thread = threading.Thread(target=self._sample, args=(readings, stop), daemon=True, name="cause-meter")
        thread.start()
        try:
            yield running
        finally:
            stop.set()
            thread.join()
            readings.take()
            seconds = self.clock() - start_s
            running.finish(readings.measurement(self.source, seconds, self.idle_watts))

    def _sample(self, readings: "_Readings", stop: threading.Event) -> None:
        while not stop.wait(1 / self.sampling_hz):
            readings.take()


class _Readings:
    """A tally that remembers why it failed."""

    def __init__(self, tally: Callable[[], Tally], clock: Callable[[], float]) -> None:
        self._tally, self._clock = tally(), clock
        self._problem: str | None = None

    def take(self) -> None:
        if self._problem is not None:
            return
        try:
            self._tally.add(self._clock())
        except MeterError as error:
            self._problem = str(error)

    def measurement(self, source: str, seconds: float, idle_watts: float | None) -> Measurement:
        if self._problem is not None:
            return Measurement(source, seconds, unavailable=self._problem)
        return Measurement(source, seconds, self._tally.joules, self._tally.readings, idle_watts)


def with_idle(
    meter: Meter,
    seconds: float = 2.0,
    sleep: Callable[[float], None] = time.sleep,
    progress: Progress | None = None,
) -> Meter:
    """Return the meter with the idle machine's power as its baseline; a meter that measures nothing stays as it is.

    A device that has just worked takes more power for a while. So the power is measured until it has stopped falling,
    and the lowest value counts, since other work that begins meanwhile only adds to it. If a reading fails, the energy
    is unknown, and the measured work goes on all the same.

    Parameters
    ----------
    meter
        The meter.
    seconds
        How long each measurement of the idle machine takes.
    sleep
        Waits; tests replace it.
    progress
        Called after each measurement.
    """
    if not isinstance(meter, SampledMeter):
        return meter
    least, steady = float("inf"), 0
    for look in range(1, LOOKS + 1):
        with meter.measure() as running:
            sleep(seconds)
        if running.record.unavailable is not None:
            return NoMeter(f"{meter.source}: {running.record.unavailable}")
        watts = running.record.mean_watts or 0.0
        steady = 0 if watts < (1 - FALLS) * least else steady + 1
        least = min(least, watts)
        if progress:
            progress(LOOKS if steady == ENOUGH else look, LOOKS)
        if steady == ENOUGH:
            break
    return replace(meter, idle_watts=least)
