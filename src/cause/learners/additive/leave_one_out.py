"""The accuracy that a device can expect, from its own samples: each is predicted without itself."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.samples import Piece, arrays_of
from cause.learners.additive.learner import AdditiveLearner
from cause.learners.additive.sums import Sums


@dataclass(frozen=True)
class LeaveOneOut:
    """How often the classifier of all other samples names a sample's label."""

    samples: int
    correct: int

    @property
    def accuracy(self) -> float | None:
        """The share of correct answers; None without samples."""
        return self.correct / self.samples if self.samples else None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain data for JSON."""
        return asdict(self) | {"accuracy": self.accuracy}


def leave_one_out(learner: AdditiveLearner, sums: Sums, pieces: Iterable[Piece]) -> LeaveOneOut:
    """Predict every sample from a state without it. Nothing is held out, and no state is changed.

    Parameters
    ----------
    learner
        The recipe.
    sums
        The state of all samples.
    pieces
        All samples that are in the state, as they are recorded.
    """
    return leave_one_out_of(learner, sums, (arrays_of(*piece) for piece in pieces))


def leave_one_out_of(
    learner: AdditiveLearner, sums: Sums, parts: Iterable[tuple[NDArray[Any], NDArray[np.int64]]]
) -> LeaveOneOut:
    """Predict each of some samples from the state without it; see `leave_one_out`.

    Parameters
    ----------
    learner
        The recipe.
    sums
        The state of all samples.
    parts
        Samples that are in the state: rows as they are recorded, and labels.

    Returns
    -------
    LeaveOneOut
        Of no samples if the state holds fewer than two: without its only one there is nothing to predict from.
    """
    if sums.samples < 2:
        return LeaveOneOut(0, 0)
    scores_of = learner.head.leave_one_out(sums)
    samples = correct = 0
    for rows, labels in parts:
        for z, y, _ in learner.blocks_of(rows, labels):
            scores = scores_of(z, y)
            samples += len(y)
            correct += int((np.argmax(scores, axis=1) == y).sum())
    return LeaveOneOut(samples, correct)
