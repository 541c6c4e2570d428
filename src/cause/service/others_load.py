"""How busy the machine is with the work of others: what this service and its workers do does not count."""

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cause.device.schedule import IDLE_LOAD

WINDOW_S = 60.0
"""Over how long the load is averaged."""
LEAST_S = 3.0
"""For how long it must have been watched before the machine can count as idle."""


@dataclass(frozen=True)
class Reading:
    """Seconds of processor time since the start: of the whole machine, and of this service."""

    at: float
    machine: float
    own: float


class OthersLoad:
    """The processor time that other processes took, on average over the last minute.

    `idle` is asked again and again; each question takes a reading. The load average of the system would count the
    service's own trainings and predictions, so that a service in use would never find its machine idle.

    >>> readings = iter([Reading(0.0, 100.0, 50.0), Reading(10.0, 120.0, 69.0), Reading(20.0, 139.0, 70.0)])
    >>> load = OthersLoad(cores=2, read=lambda: next(readings))
    >>> load.idle(), load.idle(), load.idle()  # too early, 1 of 20 seconds, 19 of 40 seconds on both cores
    (False, True, True)
    """

    def __init__(self, cores: int | None = None, read: Callable[[], Reading] | None = None) -> None:
        self._cores = cores or os.cpu_count() or 1
        self._read = read or take_reading
        self._readings: deque[Reading] = deque()

    def idle(self) -> bool:
        """Whether others take less than half of the machine; not before it was watched for a few seconds."""
        now = self._read()
        while self._readings and now.at - self._readings[0].at > WINDOW_S:
            self._readings.popleft()
        if self._readings and now.machine < self._readings[-1].machine:  # the counters began anew
            self._readings.clear()
        self._readings.append(now)
        first = self._readings[0]
        elapsed = now.at - first.at
        if elapsed < LEAST_S:
            return False
        # a worker that ended took its time with it: the difference is never below none
        others = (now.machine - first.machine) - max(0.0, now.own - first.own)
        return max(0.0, others) / elapsed / self._cores < IDLE_LOAD


def take_reading() -> Reading:
    """What the kernel counts; where there is no /proc, the load average stands in for the time of the machine."""
    now = time.monotonic()
    try:
        ticks = os.sysconf("SC_CLK_TCK")
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(each) for each in fields[:8])
        machine = (user + nice + system + irq + softirq + steal) / ticks
        return Reading(now, machine, _own_seconds(ticks))
    except (OSError, ValueError):
        return Reading(now, now * os.getloadavg()[0], time.process_time())


def _own_seconds(ticks: int) -> float:
    """Of this process and of the processes that it started: those that ended, and those that run."""
    spent = os.times()
    total = spent.user + spent.system + spent.children_user + spent.children_system
    return total + sum(_of_process(pid, ticks) for pid in _children())


def _children() -> list[int]:
    """Not by `multiprocessing.active_children`: that collects the ended ones, which is for their executor to do."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread ended meanwhile
            found += [int(pid) for pid in path.read_text().split()]
    return found


def _of_process(pid: int, ticks: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks  # utime and stime
    except (OSError, ValueError, IndexError):
        return 0.0  # it ended meanwhile
