"""The seam of all learners."""

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cause.engine.presets import System
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Upload
from cause.errors import ArrivalError

AT_ONCE = 4_096
"""How many inputs are looked at together when an upload is checked."""


class Learner(Protocol):
    """Trains sub-models. Training is a pure function of what `train` is given: the law.

    A state is whatever the learner likes; the engine only hands it on, encoded. Training always starts from a
    decoded state, never from a live one.
    """

    @property
    def recipe_digest(self) -> bytes:
        """Digest of everything that decides a training's outcome besides parent, samples and seed."""

    @property
    def environment(self) -> str:
        """Fingerprint of the machine and software on which bits are the same."""

    @property
    def sub_model_bytes(self) -> int:
        """Size of one sub-model, uncompressed, at the target width."""

    @property
    def classes(self) -> int | None:
        """How many classes it tells apart; None when it does not matter to it."""

    def composed(self, system: System) -> "Learner":
        """The learner with what a system says of its sub-models (pruning, precision), as far as it can have it."""

    def check(self, upload: Upload) -> None:
        """Refuse an upload that it could not learn from, before anything is recorded: all of it is looked at.

        A learner that takes inputs of one shape says so in an attribute `input_shape`. Without one, the device takes
        only inputs of the shape and kind of number that it holds already.
        """

    def train(self, parent: Any | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> Any:
        """The sub-model that follows `parent` (or scratch) on these samples; `tick` hears of each epoch done."""

    def predict(self, state: Any, x: Any) -> NDArray[np.floating]:
        """Probabilities, one row a sample and one column a class."""

    def encode(self, state: Any) -> bytes:
        """The bytes to store."""

    def decode(self, blob: bytes) -> Any:
        """The state again."""

    def stored_bytes(self, blob: bytes) -> int:
        """What an encoded sub-model counts against the budget."""


def warn_of_notes(learner: Learner, stacklevel: int) -> None:
    """Say what a user should know of a learner, as that less of it is pruned than its system asks for."""
    for note in getattr(learner, "notes", ()):
        warnings.warn(note, stacklevel=stacklevel)


def check_labels(upload: Upload, classes: int) -> None:
    """Refuse labels that no class has."""
    labels = upload.labels(upload.positions)
    if int(labels.max()) >= classes:
        at = int(labels.argmax())
        told = f"label {labels[at]} of user {upload.user!r}, but there are {classes} classes (from 0)"
        raise ArrivalError(f"{told}: {place_of(upload, at)}")


def check_values(upload: Upload, x: NDArray[Any], fine: Callable[[NDArray[Any]], NDArray[np.bool_]], why: str) -> None:
    """Refuse inputs that a learner cannot bear, a part of them at a time: `fine` says of each value whether it can."""
    for start in range(0, len(x), AT_ONCE):
        part = x[start : start + AT_ONCE]
        with np.errstate(all="ignore"):  # overflow is what is looked for
            bears = fine(part).reshape(len(part), -1)
        if not bears.all():
            at = int(np.argmin(bears.all(axis=1)))
            value = part[at].reshape(-1)[~bears[at]][0]
            raise ArrivalError(f"inputs of user {upload.user!r}: {place_of(upload, start + at)} holds {value:g}, {why}")


def place_of(upload: Upload, index: int) -> str:
    """Names one sample of an upload: its row as it came; of an upload that has its round already its position."""
    return f"row {index}" if upload.round == 0 else f"the sample at position {int(upload.positions[index])}"
