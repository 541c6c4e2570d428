"""Measuring trainings of several sizes, and fitting the cost of a sample."""

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
"""The shortest reading: an H200's counter was off by some 10 J in readings of a quarter of a second."""


@dataclass(frozen=True)
class TrainingRun:
    """One measured training; the mean of several where one was too short for the meter."""

    samples: int
    seconds: float
    """Of the training alone, without decoding its parent, which does not depend on the samples."""
    measurement: Measurement
    """The reading of the meter, decoding included."""
    trainings: int = 1


@dataclass(frozen=True)
class Calibration:
    """The measured runs and the fitted model."""

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

    Every measured run starts from the encoded state of a first segment, as almost all retraining does, so pruning is
    not part of it. Sizes alternate, so that a machine that warms up does not bend the line. With a meter, a training is
    repeated for `READING_S` seconds, and their mean is one run. Seconds are those of training; energy includes
    decoding. Two runs before the first reading load libraries; the first run of each size does not count either (see
    `settled`).

    Parameters
    ----------
    learner
        What is trained.
    lesson
        Returns a lesson of so many samples.
    sizes
        The numbers of samples.
    meter
        Reads the energy.
    name
        What the model calls the learner.
    repeats
        Runs of each size.
    progress
        Called after each run.
    clock
        Returns seconds.

    Raises
    ------
    InputError
        If there are fewer than three runs of two sizes.
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
    """Return which runs count, given their sizes in order: those after the first of each size, if all have several.

    The last batch of the first run of a size has a new size, for which a card prepares, and compiles some layers, for
    seconds.

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
    """Fit a model to runs. Joules stay unknown if one run has no energy, or if energy falls with the samples."""
    runs = [runs[place] for place in settled([run.samples for run in runs])]
    sizes = [run.samples for run in runs]
    seconds = Line.through(sizes, [run.seconds for run in runs])
    joules = [energy for run in runs if (energy := run.measurement.above_idle_joules) is not None]
    reasons = [run.measurement.unavailable for run in runs if run.measurement.joules is None]
    line = None if reasons else Line.through(sizes, joules)
    reason = (reasons[0] or "a reading failed") if reasons else None
    if line is not None and line.slope <= 0:  # also if other processes ran while idle power was measured
        line, reason = None, "energy did not grow with the samples: something else used the device"
    where = hardware() if machine is None else machine
    return EnergyModel(name, meter.source, line, seconds, meter.idle_watts, reason, where)
