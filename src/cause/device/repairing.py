"""A repair that keeps within an allowance of time and energy, and stops at the end of a segment."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cause.device.energy.base import Meter, Running
from cause.device.energy.model import EnergyModel
from cause.device.schedule import Allowance, expected
from cause.device.status import Waiting, waiting
from cause.engine.presets import ADDITIVE
from cause.engine.samples import SegmentKey
from cause.errors import DamageError, InputError, MeterError

if TYPE_CHECKING:
    from cause.device.device import Cause


@dataclass(frozen=True)
class Repaired:
    """What a repair did, and what is left."""

    trained: int
    rsn: int
    seconds: float
    joules: float | None
    """Measured, or from a calibration; None where neither is there."""
    stopped: str | None
    """Why it did not finish."""
    waiting: tuple[int, ...]


class _Spending:
    """Time and energy so far; what the next segment will take follows from it."""

    def __init__(self, meter: Meter | None, model: EnergyModel | None, clock: Callable[[], float]) -> None:
        self.meter, self.model, self._clock, self._start = meter, model, clock, clock()
        self._stack, self._running = ExitStack(), None
        self._joules: float | None = 0.0
        self.samples = self.trained = 0
        self._measure()

    _running: Running | None

    def _measure(self) -> None:
        if self.meter is not None:
            self._stack = ExitStack()
            self._running = self._stack.enter_context(self.meter.measure())

    def segment(self, samples: int) -> None:
        """Record that a segment of so many samples has ended."""
        self.samples, self.trained = self.samples + samples, self.trained + 1
        self.close()
        self._measure()

    def close(self) -> None:
        if self._running is None:
            return
        self._stack.close()
        joules = self._running.record.above_idle_joules
        self._joules = None if joules is None or self._joules is None else self._joules + joules
        self._running = None

    @property
    def seconds(self) -> float:
        return self._clock() - self._start

    @property
    def joules(self) -> float | None:
        if self.meter is not None:
            return self._joules
        if self.model is None or self.model.joules_line is None:
            return None
        return self.model.joules(self.samples, self.trained)

    def next(self, samples: int) -> tuple[float, float]:
        """Return the seconds and joules that the next segment is expected to take."""
        seconds = expected(self.seconds, self.samples, samples)
        joules = expected(self.joules or 0.0, self.samples, samples)
        if self.model is not None and not self.trained:
            seconds = self.model.seconds(samples, 1)
        if self.model is not None and self.model.joules_line is not None and not (self.meter and self.trained):
            joules = self.model.joules(samples, 1)
        return seconds, joules


def drop_damaged(device: "Cause") -> list[SegmentKey]:
    """Read every stored sub-model and drop those that are lost or damaged, so that a repair trains them again.

    Returns
    -------
    list of SegmentKey
        The dropped ones.

    Raises
    ------
    HomeError
        If a file cannot be read now. Nothing is dropped for that.
    """
    dropped = []
    for key in list(device.memory.stored()):
        try:
            with device.lock:
                if key in device.memory:
                    device.state.load(key)
        except DamageError:
            dropped.append(key)
    return dropped


def start_over(device: "Cause", shards: Sequence[int]) -> list[SegmentKey]:
    """Drop all sub-models of shards, which are trained from scratch in this device's environment from now on.

    This is the way out if no machine of a shard's environment is left. The shards do not vote until `repair` has
    trained them.

    Parameters
    ----------
    device
        The device.
    shards
        Shards that hold samples.

    Returns
    -------
    list of SegmentKey
        The dropped sub-models.

    Raises
    ------
    InputError
        If a shard holds no samples, or the learner keeps a sum, which is the same in every environment.
    """
    if device.learner.law == ADDITIVE:
        raise InputError(f"the {device.learner.type_name} keeps a sum, which is never trained: nothing to start over")
    if not isinstance(shards, Iterable) or not all(isinstance(s, int) and not isinstance(s, bool) for s in shards):
        raise InputError(f"shards are named by their numbers, as [0, 2], not {shards!r}")
    with device.lock:
        unknown = sorted(set(shards) - set(device.ledger.shards()))
        if unknown:
            raise InputError(f"shard {unknown[0]} holds no samples: `cause status` lists those that do")
        return device.engine.start_over(sorted(set(shards)))


def repair(
    device: "Cause",
    allowance: Allowance | None = None,
    *,
    meter: Meter | None = None,
    model: EnergyModel | None = None,
    busy: Callable[[], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Repaired:
    """Train what waits, segment after segment, while the allowance lasts.

    A segment is begun only if it is expected to fit: from a calibration, or from what those before it took. The first
    one without a calibration is always begun. `busy` is called after each segment, too.

    Parameters
    ----------
    device
        The device; it is not locked meanwhile.
    allowance
        The most seconds and joules that it may take; without limit by default.
    meter
        Measures the energy.
    model
        A calibration, which estimates what a segment takes.
    busy
        Called after each segment: whether the machine has other work to do.
    clock
        Counts seconds.

    Returns
    -------
    Repaired
        What was trained, and what still waits.
    """
    allowance = allowance or Allowance()
    if allowance.energy_j is not None and meter is None and (model is None or model.joules_line is None):
        raise MeterError("an energy budget needs a meter, or a calibration with joules: cause calibrate --out FILE")
    todo = waiting(device)
    spending, reason = _Spending(meter, model, clock), None

    def stop() -> bool:
        nonlocal reason
        done = todo[spending.trained] if spending.trained < len(todo) else None
        spending.segment(done.samples if done else 0)
        reason = _why_not(spending, allowance, todo, busy)
        return reason is not None

    rsn = 0
    try:
        reason = _why_not(spending, allowance, todo, None)
        if reason is None:  # also where nothing waits: the process before may have died before it signed the receipts
            rsn = device.repair(stop=stop)
    finally:
        spending.close()
    left = tuple(device.waiting())
    return Repaired(spending.trained, rsn, spending.seconds, spending.joules, reason if left else None, left)


def _why_not(
    spending: _Spending, allowance: Allowance, todo: list[Waiting], busy: Callable[[], bool] | None
) -> str | None:
    """Return why the next segment is not begun."""
    if spending.trained >= len(todo):
        return None
    if busy is not None and busy():
        return "the machine is no longer idle"
    seconds, joules = spending.next(todo[spending.trained].samples)
    return allowance.spent(spending.seconds, spending.joules, seconds, joules)
