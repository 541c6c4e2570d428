"""Measure a learner at several sizes and fit what a sample costs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cause.common.hashing import derive, root_key
from cause.common.machine import hardware
from cause.device.energy.base import Measurement, Meter
from cause.device.energy.model import EnergyModel, Line
from cause.engine.learner import Learner
from cause.engine.progress import Progress
from cause.engine.samples import Lesson
from cause.errors import InputError

READING_S = 2.0
"""How long a reading lasts at least: an H200's counter was off by some 10 J in readings of a quarter of a second."""


@dataclass(frozen=True)
class TrainingRun:
    """One training that was measured; the mean of several, where one was too short for the meter."""

    samples: int
    seconds: float
    """Of the training alone: how long its parent takes to decode says nothing about the samples."""
    measurement: Measurement
    """What the meter read, decoding included."""
    trainings: int = 1


@dataclass(frozen=True)
class Calibration:
    """The runs, and the model that they gave."""

    model: EnergyModel
    runs: tuple[TrainingRun, ...]


def calibrate(
    learner: Learner,
    lesson: Callable[[int], Lesson],
    sizes: Sequence[int],
    meter: Meter,
    *,
    name: str = "",
    repeats: int = 3,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Calibration:
    """Train on `lesson(size)` for each size and fit joules and seconds per sample.

    Every measured run starts from a first segment's encoded state, as almost all retraining does: pruning is not in it.
    Sizes take turns, so that a machine that warms up does not bend the line. Where there is a meter, a training is
    repeated until it has had its time (`READING_S`), and counted as their mean. Seconds are those of training; energy
    is that of all that was done meanwhile. The first two runs, which load libraries and what a pruned network needs,
    are not counted, nor is the first turn where others follow (see `settled`).
    """
    if repeats < 1 or len(set(sizes)) < 2 or len(sizes) * repeats < 3 or min(sizes) < 1:
        raise InputError(f"three runs or more of two different sizes are needed, not {repeats} of {list(sizes)}")
    key = root_key(0)
    first = learner.encode(learner.train(None, lesson(min(sizes)), derive(key, "first")))
    learner.train(learner.decode(first), lesson(min(sizes)), derive(key, "second"))
    runs = []
    for turn in range(repeats):
        for place, size in enumerate(sizes):
            task, trainings, seconds = lesson(size), 0, 0.0
            until = clock() + (READING_S if meter.unavailable is None else 0.0)
            with meter.measure() as running:
                while not trainings or clock() < until:
                    parent, seed = learner.decode(first), derive(key, turn, place)
                    started = clock()
                    learner.train(parent, task, seed)
                    seconds += clock() - started
                    trainings += 1
            runs.append(TrainingRun(size, seconds / trainings, _mean(running.record, trainings), trainings))
            if progress:
                progress(len(runs), repeats * len(sizes))
    return Calibration(fit(runs, meter, name), tuple(runs))


def _mean(measured: Measurement, trainings: int) -> Measurement:
    joules = None if measured.joules is None else measured.joules / trainings
    return replace(measured, seconds=measured.seconds / trainings, joules=joules)


def settled(sizes: Sequence[int]) -> list[int]:
    """Which of the runs count, given their sizes in order: those after the first of each size, where all have more.

    The first run of a size pays for its last batch, which is of a size that was not met before: a card prepares for
    it, and for some layers compiles, for seconds.

    >>> settled([10, 20, 30, 10, 20, 30]), settled([10, 20, 30])
    ([3, 4, 5], [0, 1, 2])
    """
    firsts = {size: place for place, size in reversed(list(enumerate(sizes)))}
    later = [place for place, size in enumerate(sizes) if place != firsts[size]]
    enough = len(later) >= 3 and {sizes[place] for place in later} == firsts.keys()
    return later if enough else list(range(len(sizes)))


def fit(
    runs: Sequence[TrainingRun], meter: Meter, name: str = "", machine: dict[str, Any] | None = None
) -> EnergyModel:
    """The model of measured runs. A single run without energy leaves joules unknown, and so does a line that falls."""
    runs = [runs[place] for place in settled([run.samples for run in runs])]
    sizes = [run.samples for run in runs]
    seconds = Line.through(sizes, [run.seconds for run in runs])
    joules = [energy for run in runs if (energy := run.measurement.above_idle_joules) is not None]
    reasons = [run.measurement.unavailable for run in runs if run.measurement.joules is None]
    line = None if reasons else Line.through(sizes, joules)
    reason = (reasons[0] or "a reading failed") if reasons else None
    if line is not None and line.slope <= 0:  # also when the idle power was taken while others were at work
        line, reason = None, "energy did not grow with the samples: something else used the device"
    where = hardware() if machine is None else machine
    return EnergyModel(name, meter.source, line, seconds, meter.idle_watts, reason, where)
