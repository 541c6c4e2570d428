"""What a learner is: the base class of all learners, and checks that they share."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cause.engine.presets import REPLAYED, System
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Upload
from cause.errors import ArrivalError, LearnerError

AT_ONCE = 4_096
"""The number of inputs that are checked together."""

Predictor = Callable[[Any], NDArray[np.floating]]
"""Takes inputs, returns probabilities: one row a sample, one column a class."""
UsersCode = Callable[[], tuple[list[type], list[Callable[..., Any]]]]
"""Lists the classes and the functions of a user's own that take part in a training."""


class LearnerLike(Protocol):
    """The least that an object must have to train sub-models. `Cause` makes a `Learner` of it (`as_learner`).

    Training is a pure function of the arguments of `train`: the law. A state may be any object; the engine only passes
    it on, encoded. Training always starts from a decoded state, never from a live one.
    """

    @property
    @abstractmethod
    def recipe_digest(self) -> bytes:
        """Digest of everything that decides a training's outcome besides parent, samples and seed."""

    @property
    @abstractmethod
    def environment(self) -> str:
        """Fingerprint of the machine and software on which a training gives the same bits."""

    @property
    @abstractmethod
    def sub_model_bytes(self) -> int:
        """Size of one sub-model, uncompressed, at the target width."""

    @property
    @abstractmethod
    def classes(self) -> int | None:
        """Number of classes that the learner tells apart; None if it works with any number."""

    @abstractmethod
    def composed(self, system: System) -> "LearnerLike":
        """Return the learner with a system's settings for sub-models (pruning, precision), as far as it has them."""

    @abstractmethod
    def check(self, upload: Upload) -> None:
        """Refuse an upload that the learner could not learn from, before anything is recorded.

        Raises
        ------
        ArrivalError
            If a label or an input does not fit; the message names the sample.
        """

    @abstractmethod
    def train(self, parent: Any | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> Any:
        """Train one sub-model.

        Parameters
        ----------
        parent
            The decoded state to go on from; None to start from scratch.
        lesson
            The samples to learn from.
        seed
            All random choices of the training follow from it.
        tick
            Called after each epoch with the number of epochs done and of all epochs.

        Returns
        -------
        Any
            The state of the new sub-model.
        """

    @abstractmethod
    def predict(self, state: Any, x: Any) -> NDArray[np.floating]:
        """Return probabilities for inputs: one row a sample, one column a class."""

    @abstractmethod
    def encode(self, state: Any) -> bytes:
        """Return a state as bytes to store."""

    @abstractmethod
    def decode(self, blob: bytes) -> Any:
        """Return the state of stored bytes."""

    @abstractmethod
    def stored_bytes(self, blob: bytes) -> int:
        """Return what an encoded sub-model counts against the memory's budget."""


class Learner(LearnerLike):
    """Base class of all learners: what `LearnerLike` requires, and defaults for the rest."""

    @property
    def classes(self) -> int | None:
        """Number of classes that the learner tells apart; here None: it works with any number."""
        return None

    def composed(self, system: System) -> "Learner":
        """Return the learner itself: nothing of it depends on the system."""
        return self

    def stored_bytes(self, blob: bytes) -> int:
        """Return the length of the encoded sub-model."""
        return len(blob)

    def predictor(self, state: Any) -> Predictor:
        """Return a function that predicts with one state again and again; here it calls `predict`."""
        return partial(self.predict, state)

    @property
    def law(self) -> str:
        """The law that the learner obeys: `REPLAYED` or `ADDITIVE` (`cause.engine.law`)."""
        return REPLAYED

    def recorded(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return checked inputs in the form in which the device keeps them; here as they are.

        Raises
        ------
        ArrivalError
            If the learner cannot make that form of them.
        """
        return x

    @property
    def type_name(self) -> str:
        """Name of the learner's class, for messages."""
        return type(self).__name__

    @property
    def features(self) -> int | None:
        """Number of values in an input, for a learner that flattens inputs of any shape; else None."""
        return None

    @property
    def recipe(self) -> Any:
        """The recipe of a network (`cause.learners.recipe.Recipe`); None for a learner without one."""
        return None

    @property
    def prunes(self) -> bool:
        """Whether weights of a sub-model are pruned."""
        return False

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """Shape of one input. If None, a device accepts only the shape and kind of number that it holds already."""
        return None

    @property
    def input_function(self) -> str | None:
        """Name of the function that is applied to inputs before they are learned from, for exports."""
        return None

    @property
    def device_type(self) -> str:
        """Kind of processor that trains: "cpu", "cuda", "mps"."""
        return "cpu"

    @property
    def notes(self) -> list[str]:
        """Sentences that a user should read, for instance that less is pruned than the system asks for."""
        return []

    def as_written(self, description: Mapping[str, Any]) -> "Learner":
        """Return this learner with the settings of a home where it was made with defaults that have changed since.

        Parameters
        ----------
        description
            The table `[learner]` of the home that it opens.
        """
        return self

    def described(self) -> dict[str, Any] | None:
        """Return the learner as plain data for a configuration; None if it has to be passed at each opening."""
        return None

    # For exports

    def exported(self, state: Any) -> Mapping[str, Any]:
        """Return the arrays that predict, by name, for a learner without a network; here the state itself."""
        arrays: Mapping[str, Any] = state
        return arrays

    @property
    def has_network(self) -> bool:
        """Whether a state is the weights of a network, which `network` builds."""
        return False

    def network(self, state: Any) -> Any:
        """Return the network of a state, in eval mode, for inputs that are scaled already.

        Raises
        ------
        LearnerError
            If the learner has no networks (`has_network`).
        """
        raise LearnerError(f"a {self.type_name} has no network")

    # For a trial

    def shortened(self) -> "Learner":
        """Return a learner that trains with fewer epochs, for a trial; here the learner itself."""
        return self

    def unrounded(self) -> "Learner":
        """Return a learner that does not round the weights of a sub-model, for a trial; here the learner itself."""
        return self

    @property
    def tokens(self) -> int | None:
        """Number of different whole numbers that an input may hold; None if inputs are not whole numbers."""
        return None

    @property
    def users_code(self) -> UsersCode | None:
        """Function that lists the user's own code in the learner; None if there is none, or it is unknown."""
        return None


def warn_of_notes(learner: Learner, stacklevel: int) -> None:
    """Issue a warning for each of a learner's notes."""
    for note in learner.notes:
        warnings.warn(note, stacklevel=stacklevel)


def check_labels(upload: Upload, classes: int) -> None:
    """Raise an `ArrivalError` if a label is not below the number of classes."""
    labels = upload.labels(upload.positions)
    if int(labels.max()) >= classes:
        index = int(labels.argmax())
        problem = f"label {labels[index]} of user {upload.user!r}, but there are {classes} classes (from 0)"
        raise ArrivalError(f"{problem}: {place_of(upload, index)}")


def check_values(upload: Upload, x: NDArray[Any], fine: Callable[[NDArray[Any]], NDArray[np.bool_]], why: str) -> None:
    """Check the values of inputs, some rows at a time.

    Parameters
    ----------
    upload
        The upload, for messages.
    x
        Its inputs.
    fine
        Returns for each value of an array whether the learner can learn from it.
    why
        What is wrong with a value that is not fine, for messages.

    Raises
    ------
    ArrivalError
        If a value is not fine; the message names sample and value.
    """
    for start in range(0, len(x), AT_ONCE):
        part = x[start : start + AT_ONCE]
        with np.errstate(all="ignore"):  # an overflow is what the check is for
            is_fine = fine(part).reshape(len(part), -1)
        if not is_fine.all():
            row = int(np.argmin(is_fine.all(axis=1)))
            value, place = part[row].reshape(-1)[~is_fine[row]][0], place_of(upload, start + row)
            raise ArrivalError(f"inputs of user {upload.user!r}: {place} holds {value:g}, {why}")


def place_of(upload: Upload, index: int) -> str:
    """Return words for a sample of an upload: its row, or its position if the upload is part of a round."""
    return f"row {index}" if upload.round == 0 else f"the sample at position {int(upload.positions[index])}"
