"""Estimates the accuracy of a device with an additive learner by leave-one-out, without held-out data.

An estimate has seen every sample behind it. So none is ever stored: it lives in the memory of a process, belongs to one
state, and is of no use once the state has changed.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common import positions as pos
from cause.common.zeroize import wipe_arrays
from cause.device.device import Cause
from cause.engine.samples import arrays_of
from cause.errors import InputError
from cause.learners.additive import AdditiveLearner
from cause.learners.additive.leave_one_out import LeaveOneOut, leave_one_out, leave_one_out_of

MOST = 2_000
"""How many samples an estimate that must be quick predicts."""
MOST_FEATURES = 4_096
"""A larger head takes minutes to invert, which nothing does unasked."""


@dataclass(frozen=True)
class Estimate:
    """A quick estimate: some of the held samples, each predicted from all others."""

    samples: int
    """How many were predicted."""
    correct: int
    held: int
    """How many samples the device held."""
    at: float
    """When it was made (seconds since 1970)."""
    seconds: float
    """How long it took."""
    identity: bytes
    """Of the state that it belongs to."""

    @property
    def accuracy(self) -> float:
        """The share of correct answers."""
        return self.correct / self.samples

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate for JSON."""
        parts = {name: getattr(self, name) for name in ("accuracy", "samples", "correct", "held", "at", "seconds")}
        return {**parts, "method": "leave-one-out"}


def expected_accuracy(device: Cause) -> LeaveOneOut:
    """Predict every held sample from all others (leave-one-out). Changes nothing.

    Samples that arrive or are forgotten meanwhile wait: the device's lock is held.

    Raises
    ------
    InputError
        If the learner is not an additive one: leaving a sample out would mean to train again.

    Examples
    --------
    >>> device = Cause(learner=AdditiveLearner(features=1, scale=(0, 10), classes=2))
    >>> learned = device.learn({"ann": ([[1], [2], [3], [7], [8], [9]], [0, 0, 0, 1, 1, 1])})
    >>> expected_accuracy(device).accuracy
    1.0
    """
    learner = device.learner
    if not isinstance(learner, AdditiveLearner):
        raise InputError(f"the accuracy without held-out data is for an additive learner, not a {learner.type_name}")
    with device.lock:
        device.state.refresh_if_reader()
        device.engine.training.prepare()
        head = device.memory.head(0)
        if head is None:
            return LeaveOneOut(0, 0)
        sums = learner.decode(device.memory.shelf.get(head.key))
        pieces = (piece for segment in device.ledger.lineage(0) for piece in segment.pieces)
        return leave_one_out(learner, sums, pieces)


def quick_estimate(device: Cause, most: int = MOST) -> Estimate | None:
    """Predict some of the held samples from all others. Changes nothing, and holds the lock only to copy them.

    The samples are those of segments that are drawn at random, with the identity of the state as the seed: the same
    state has the same estimate.

    Parameters
    ----------
    device
        A device with an additive learner.
    most
        How many samples are predicted.

    Returns
    -------
    Estimate
        None without an additive learner or with fewer than two samples, and for heads of more than 4,096 features,
        which take long.

    Raises
    ------
    CauseError
        If samples cannot be read.
    """
    learner, started = device.learner, time.perf_counter()
    if not isinstance(learner, AdditiveLearner) or learner.head.setting.features > MOST_FEATURES:
        return None
    with device.lock:
        device.state.refresh_if_reader()
        device.engine.training.prepare()
        head = device.memory.head(0)
        if head is None:
            return None
        identity, sums = head.identity, learner.decode(device.memory.shelf.get(head.key))
        if sums.samples < 2:
            return None
        x, y = _drawn(device, identity, most, learner.recorded_bytes)
    try:
        scores = leave_one_out_of(learner, sums, [(x, y)])
    finally:
        wipe_arrays(x)
    at = time.time() if device.home is None else device.home.clock()
    return Estimate(scores.samples, scores.correct, sums.samples, at, time.perf_counter() - started, identity)


def _drawn(device: Cause, identity: bytes, most: int, width: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Copy the first `width` bytes of recorded samples, without their inputs, until there are enough.

    The segments are in a random order. Inputs that are kept may be of several types, and so of several lengths.
    """
    segments = list(device.ledger.lineage(0))
    order = np.random.default_rng(int.from_bytes(identity[:8], "big")).permutation(len(segments))
    parts: list[tuple[NDArray[Any], NDArray[np.int64]]] = []
    missing = most
    for number in order:
        for piece in segments[number].pieces:
            chosen = pos.array(piece.positions)[:missing]
            if len(chosen):
                x, y = arrays_of(piece.upload, chosen)
                parts.append((np.array(x[:, :width]), np.array(y)))
                missing -= len(chosen)
        if not missing:
            break
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
