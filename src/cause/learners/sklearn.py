"""SklearnLearner trains estimators with `partial_fit`, for boards too small for torch; it stores fitted arrays."""

import copy
import hashlib
import io
import json
import platform
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone

from cause.common.hashing import derive, digest
from cause.engine.arguments import check_whole
from cause.engine.keywords import checks_arguments
from cause.engine.learner import Learner, Predictor, check_labels, check_values, place_of
from cause.engine.presets import System
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Piece, Upload, arrays_of
from cause.errors import ArrivalError, DivergedError, InputError, LearnerError
from cause.learners.estimator_settings import normalized, to_plain

FAMILIES = ("SGDClassifier", "Perceptron", "GaussianNB", "MultinomialNB", "BernoulliNB", "ComplementNB")
"""Estimators whose fitted state is arrays and numbers, and whose `partial_fit` goes on from it."""
STEPPING = ("SGDClassifier", "Perceptron")
"""Estimators that learn in steps, one sample after the other: few steps or unscaled inputs make them learn badly."""
SAMPLES_A_STEP = 64
"""A system's `min_steps` counts steps of this many samples."""
MOST_PASSES = 20
"""The most passes over a segment that `min_steps` may cause."""
COUNTS = ("MultinomialNB", "ComplementNB")
"""Estimators whose training fails on inputs below 0."""

State = dict[str, NDArray[Any]]


class SklearnLearner(Learner):
    """Trains an estimator segment after segment, from its fitted arrays, in the order of a keyed hash of the ids.

    Parameters
    ----------
    estimator
        An estimator of scikit-learn, of one of the families that can be stored without pickle.
    classes, features
        The number of classes, and of values in an input.
    epochs
        Passes over each segment.

    Raises
    ------
    InputError
        If the estimator is of another family, a setting of it does not fit, or a number is too small.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> SklearnLearner(GaussianNB(), classes=10, features=64).sub_model_bytes > 64 * 10 * 8
    True
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> SklearnLearner(RandomForestClassifier(), classes=10, features=64)
    Traceback (most recent call last):
    cause.errors.InputError: RandomForestClassifier cannot be stored without pickle: one of SGDClassifier, Perceptron,
    GaussianNB, MultinomialNB, BernoulliNB, ComplementNB
    """

    @checks_arguments
    def __init__(self, estimator: Any, *, classes: int, features: int = 0, epochs: int = 1) -> None:
        if isinstance(estimator, type | str):
            family = estimator if isinstance(estimator, str) else estimator.__name__
            raise InputError(f"an estimator is given as an object, SklearnLearner({family}(), …), not as {estimator!r}")
        name = type(estimator).__name__
        if name not in FAMILIES or not type(estimator).__module__.startswith("sklearn."):
            raise InputError(f"{name} cannot be stored without pickle: one of {', '.join(FAMILIES)}")
        check_whole(classes=classes, features=features, epochs=epochs)
        if classes < 2:
            raise InputError(f"an estimator tells at least 2 classes apart, not {classes}")
        if features < 1 or epochs < 1:
            raise InputError(f"features (numbers in an input) and epochs are at least 1, not {features} and {epochs}")
        self._classes, self._features, self.epochs = classes, features, epochs
        self._uncomposed = normalized(estimator, classes)
        self._compose(robust=False, min_steps=0)

    def _compose(self, *, robust: bool, min_steps: int) -> None:
        """Set a system's settings: whether inputs and weights are made robust, and the least steps of a segment."""
        estimator, self.robust, self.min_steps = clone(self._uncomposed), robust, min_steps
        if robust and estimator.get_params().get("average") is False:
            estimator.set_params(average=True)
        self._estimator, name = estimator, type(estimator).__name__
        # without random_state, which each segment's seed sets
        params = {key: value for key, value in estimator.get_params().items() if key != "random_state"}
        settings = json.dumps(params, sort_keys=True, default=repr)
        more = [repr((robust, min_steps))] if robust or min_steps else []  # digests of earlier versions have neither
        self._recipe_digest = digest("sklearn", name, settings, self.classes, self.features, self.epochs, *more)
        probe = clone(estimator)
        labels = np.arange(self.classes)
        try:
            probe.partial_fit(np.zeros((self.classes, self.features)), labels, labels)
        except (TypeError, ValueError) as error:
            first = (str(error).splitlines() or [""])[0]
            raise InputError(f"{name} cannot learn with these settings: {first}") from None
        self._sub_model_bytes = len(self.encode(_fitted(probe)))

    @property
    def recipe_digest(self) -> bytes:
        """Digest of the estimator's settings, and of the arguments."""
        return self._recipe_digest

    @property
    def sub_model_bytes(self) -> int:
        """Size of an encoded estimator that was fitted once."""
        return self._sub_model_bytes

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self._classes

    @property
    def features(self) -> int:
        """Number of values in an input."""
        return self._features

    @property
    def environment(self) -> str:
        """Versions and processor on which bits depend, besides the recipe."""
        return f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, {platform.machine()}"

    def described(self) -> dict[str, Any]:
        """Return the learner as plain data, for a configuration; an `InputError` if a setting is not plain."""
        return {
            "kind": "sklearn",
            "estimator": type(self._estimator).__name__,
            "classes": self.classes,
            "features": self.features,
            "epochs": self.epochs,
            "settings": to_plain(self._uncomposed),
        }

    def composed(self, system: System) -> "SklearnLearner":
        """Return the learner with a system's robustness and steps; itself if the estimator does not learn in steps."""
        robust, in_steps = system.estimators == "robust", type(self._uncomposed).__name__ in STEPPING
        if not in_steps or (robust, system.min_steps) == (self.robust, self.min_steps):
            return self
        learner = copy.copy(self)
        learner._compose(robust=robust, min_steps=system.min_steps)
        return learner

    def check(self, upload: Upload) -> None:
        """Refuse labels and inputs that the estimator cannot learn from (`Learner.check`)."""
        check_labels(upload, self.classes)
        counts, whose = type(self._estimator).__name__ in COUNTS, f" of user {upload.user!r}"
        x = arrays_of(upload, upload.positions)[0]
        self._inputs(x[:1], whose)
        check_values(upload, x, _as_float64, "which is not finite as float64")
        if counts and x.min() < 0:
            family, row = type(self._estimator).__name__, int(x.reshape(len(x), -1).min(axis=1).argmin())
            low = f"inputs{whose} go down to {x.min():g}, but {family} learns from numbers from 0 up"
            raise ArrivalError(f"{low}: {place_of(upload, row)}")

    def train(self, parent: State | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> State:
        """Train an estimator on a lesson (`Learner.train`).

        Raises
        ------
        DivergedError
            If a fitted value is not finite afterwards.
        """
        pieces = [*lesson.pieces, *lesson.rehearsed]
        x, y = self._data(pieces)
        estimator = self._restored(parent, seed)
        epochs = max(self.epochs, min(-(-self.min_steps * SAMPLES_A_STEP // len(y)), MOST_PASSES))
        for epoch in range(epochs):
            key = derive(seed, "order", epoch)
            hashes = np.concatenate([upload.hashes(key, positions) for upload, positions in pieces])
            order = np.argsort(hashes, kind="stable")
            estimator.partial_fit(x[order], y[order], classes=np.arange(self.classes))
            tick(epoch + 1, epochs)
        state = _fitted(estimator)
        for name, value in state.items():  # -inf is the logarithm of a class that has no sample
            if value.dtype.kind == "f" and (np.isnan(value) | (value == np.inf)).any():
                raise DivergedError(f"training diverged: {name} is no longer finite")
        return state

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, flat."""
        return (self.features,)

    @property
    def input_function(self) -> str | None:
        """Name of the function that is applied to inputs: "asinh" in a robust system, else None."""
        return "asinh" if self.robust else None

    def _data(self, pieces: Sequence[Piece]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        arrays = [arrays_of(upload, positions) for upload, positions in pieces]
        y = np.concatenate([labels for _, labels in arrays])
        return np.concatenate([self._inputs(x) for x, _ in arrays]), y

    def _inputs(self, x: Any, whose: str = "") -> NDArray[np.float64]:
        flat = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
        if flat.shape[1] != self.features:
            raise ArrivalError(f"inputs{whose} have {flat.shape[1]} features, not {self.features}")
        return np.arcsinh(flat) if self.robust else flat

    def _restored(self, state: State | None, seed: bytes) -> Any:
        """Return an estimator with the fitted arrays of a state."""
        estimator = clone(self._estimator)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=int.from_bytes(seed[:4], "big") % 2**31)
        for name, value in (state or {}).items():
            setattr(estimator, name, value.copy() if value.ndim else value.item())
        return estimator

    def predict(self, state: State, x: Any) -> NDArray[np.floating]:
        """Return probabilities for inputs: one row a sample, one column a class."""
        return self.predictor(state)(x)

    def predictor(self, state: State) -> Predictor:
        """Return a function that predicts with a state; the estimator is restored once."""
        return partial(self._predict, self._restored(state, bytes(32)))

    def _predict(self, estimator: Any, x: Any) -> NDArray[np.floating]:
        inputs = self._inputs(x)
        finite = np.isfinite(inputs).all(axis=1)
        if not finite.all():
            row, family = int(np.argmin(finite)), type(estimator).__name__
            raise InputError(f"input {row} has a value that is not finite: {family} cannot answer")
        if hasattr(estimator, "predict_proba"):
            # the logarithm of a class without samples is -inf; a single sample has no variance
            with np.errstate(divide="ignore", invalid="ignore"):
                probabilities = np.asarray(estimator.predict_proba(inputs))
            undefined = ~np.isfinite(probabilities).all(axis=1)
            if undefined.any():  # NaN of one head would make the whole vote NaN
                probabilities[undefined] = getattr(estimator, "class_prior_", 1 / self.classes)
            return probabilities
        return np.asarray(np.eye(self.classes)[estimator.predict(inputs)])

    def encode(self, state: State) -> bytes:
        """Return the fitted arrays as bytes, with a digest."""
        buffer = io.BytesIO()
        for name in sorted(state):
            np.lib.format.write_array(buffer, np.array([name]), allow_pickle=False)
            np.lib.format.write_array(buffer, np.asarray(state[name]), allow_pickle=False)
        body = buffer.getvalue()
        return hashlib.sha256(body).digest() + body

    def decode(self, blob: bytes) -> State:
        """Return the fitted arrays of stored bytes; a `LearnerError` if the digest is wrong."""
        if hashlib.sha256(blob[32:]).digest() != blob[:32]:
            raise LearnerError("a stored sub-model is damaged: its digest is another")
        buffer, state = io.BytesIO(blob[32:]), {}
        while buffer.tell() < len(blob) - 32:
            name = str(np.lib.format.read_array(buffer, allow_pickle=False)[0])
            state[name] = np.lib.format.read_array(buffer, allow_pickle=False)
        return state


def _as_float64(x: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isfinite(np.asarray(x, dtype=np.float64))


def _fitted(estimator: Any) -> State:
    """Return what `partial_fit` set in an estimator: arrays, and numbers whose names end with an underscore."""
    settings = estimator.get_params()
    return {
        name: np.asarray(value)
        for name, value in vars(estimator).items()
        if name not in settings
        and (isinstance(value, np.ndarray) or (name.endswith("_") and isinstance(value, np.generic | int | float)))
    }
