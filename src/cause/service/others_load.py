"""How busy other processes keep the machine; this service and its workers do not count."""

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cause.device.schedule import IDLE_LOAD

WINDOW_S = 60.0
"""The load is averaged over so many seconds."""
LEAST_S = 3.0
"""Before the machine counts as idle it must have been watched for so many seconds."""


@dataclass(frozen=True)
class Reading:
    """Seconds of processor time since the start: of the whole machine, and of this service."""

    at: float
    machine: float
    own: float


class OthersLoad:
    """The processor time that other processes took, on average over the last minute.

    Each call of `idle` takes a reading. The load average of the system is not used: it counts the service's own
    trainings and predictions, so a service in use would never find its machine idle.

    Parameters
    ----------
    cores
        The number of cores; by default that of this machine.
    read
        Takes a reading; by default `take_reading`.

    Examples
    --------
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
        """Return whether others take less than half of the machine; False in the first seconds."""
        now = self._read()
        while self._readings and now.at - self._readings[0].at > WINDOW_S:
            self._readings.popleft()
        if self._readings and now.machine < self._readings[-1].machine:  # the counters were reset
            self._readings.clear()
        self._readings.append(now)
        first = self._readings[0]
        elapsed = now.at - first.at
        if elapsed < LEAST_S:
            return False
        # the time of a worker that ended may be missing: the difference is never negative
        others = (now.machine - first.machine) - max(0.0, now.own - first.own)
        return max(0.0, others) / elapsed / self._cores < IDLE_LOAD


def take_reading() -> Reading:
    """Return what the kernel counts; without /proc, the load average replaces the time of the machine."""
    now = time.monotonic()
    try:
        ticks = os.sysconf("SC_CLK_TCK")
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(ticks_) for ticks_ in fields[:8])
        machine = (user + nice + system + irq + softirq + steal) / ticks
        return Reading(now, machine, _own_seconds(ticks))
    except (OSError, ValueError):
        return Reading(now, now * os.getloadavg()[0], time.process_time())


def _own_seconds(ticks: int) -> float:
    """Return the processor time of this process and of its children, ended and running."""
    spent = os.times()
    total = spent.user + spent.system + spent.children_user + spent.children_system
    return total + sum(_of_process(pid, ticks) for pid in _children())


def _children() -> list[int]:
    """Return the ids of child processes.

    `multiprocessing.active_children` would join those that ended, which their executor must do.
    """
    pids: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            pids += [int(pid) for pid in path.read_text().split()]
    return pids


def _of_process(pid: int, ticks: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks  # utime and stime
    except (OSError, ValueError, IndexError):
        return 0.0  # the process has ended
