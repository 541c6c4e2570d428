"""NoMeter, for machines without a meter: it measures time alone, and says why there is no energy."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cause.device.energy.base import Measurement, Running


@dataclass(frozen=True)
class NoMeter:
    """Measures seconds only.

    >>> meter = NoMeter("no RAPL here")
    >>> with meter.measure() as running:
    ...     pass
    >>> running.record.joules is None, running.record.unavailable
    (True, 'no RAPL here')
    """

    unavailable: str
    source: str = "none"
    sampling_hz: None = None
    idle_watts: None = None
    clock: Callable[[], float] = time.perf_counter

    @contextmanager
    def measure(self) -> Iterator[Running]:
        """Measure the time of the `with` block."""
        running, start_s = Running(), self.clock()
        try:
            yield running
        finally:
            running.finish(Measurement(self.source, self.clock() - start_s, unavailable=self.unavailable))
