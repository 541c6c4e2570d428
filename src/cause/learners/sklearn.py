"""SklearnLearner: estimators with `partial_fit`, for boards too small for torch; stored by their fitted arrays."""

import hashlib
import io
import json
import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone

from cause.errors import ArrivalError, DivergedError, InputError, LearnerError
from cause.keyed import derive, digest
from cause.learners.base import check_labels, check_values, place_of
from cause.positions import Positions
from cause.presets import System
from cause.progress import Tick, silent
from cause.samples import Lesson, Piece, Upload

FAMILIES = ("SGDClassifier", "Perceptron", "GaussianNB", "MultinomialNB", "BernoulliNB", "ComplementNB")
"""Estimators whose fitted state is arrays and numbers, and whose `partial_fit` goes on from it."""
COUNTS = ("MultinomialNB", "ComplementNB")
"""Those of them that refuse inputs below 0 when they are trained, and with them all that is trained beside."""

State = dict[str, NDArray[Any]]


class _WithData(Protocol):
    def arrays(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]: ...


class SklearnLearner:
    """Trains an estimator segment after segment, from its fitted arrays, in the order of a keyed hash of the ids.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> SklearnLearner(GaussianNB(), classes=10, features=64).sub_model_bytes > 64 * 10 * 8
    True
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> SklearnLearner(RandomForestClassifier(), classes=10, features=64)
    Traceback (most recent call last):
    cause.errors.InputError: RandomForestClassifier cannot be stored without pickle: one of SGDClassifier, Perceptron,
    GaussianNB, MultinomialNB, BernoulliNB, ComplementNB
    """

    def __init__(self, estimator: Any, *, classes: int, features: int, epochs: int = 1) -> None:
        name = type(estimator).__name__
        if name not in FAMILIES or not type(estimator).__module__.startswith("sklearn."):
            raise InputError(f"{name} cannot be stored without pickle: one of {', '.join(FAMILIES)}")
        if classes < 2 or features < 1 or epochs < 1:
            raise InputError(f"classes, features and epochs must be positive, not {classes}, {features} and {epochs}")
        self.classes, self.features, self.epochs = classes, features, epochs
        self._estimator = clone(estimator)
        # random_state is not the user's to choose: each segment's seed sets it
        params = {key: value for key, value in estimator.get_params().items() if key != "random_state"}
        settings = json.dumps(params, sort_keys=True, default=repr)
        self.recipe_digest = digest("sklearn", name, settings, classes, features, epochs)
        probe = clone(estimator)
        probe.partial_fit(np.zeros((classes, features)), np.arange(classes), classes=np.arange(classes))
        self.sub_model_bytes = len(self.encode(_fitted(probe)))

    @property
    def environment(self) -> str:
        """What bits depend on, besides the recipe."""
        return f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, {platform.machine()}"

    def described(self) -> dict[str, Any]:
        """The learner as plain data, for a configuration."""
        made = type(self._estimator)()
        settings = {
            name: value
            for name, value in self._estimator.get_params().items()
            if value != made.get_params()[name] and isinstance(value, str | int | float | bool)
        }
        told = {"kind": "sklearn", "estimator": type(self._estimator).__name__, "classes": self.classes}
        return {**told, "features": self.features, "epochs": self.epochs, "settings": settings}

    def composed(self, system: System) -> "SklearnLearner":
        """Itself: fitted arrays have no filters to remove, and are kept as they are."""
        return self

    def check(self, upload: Upload) -> None:
        check_labels(upload, self.classes)
        counts, whose = type(self._estimator).__name__ in COUNTS, f" of user {upload.user!r}"
        x = cast(_WithData, upload).arrays(upload.positions)[0]
        self._inputs(x[:1], whose)
        check_values(upload, x, _as_float64, "which is not finite as float64")
        if counts and x.min() < 0:
            told, at = type(self._estimator).__name__, int(x.reshape(len(x), -1).min(axis=1).argmin())
            low = f"inputs{whose} go down to {x.min():g}, but {told} learns from numbers from 0 up"
            raise ArrivalError(f"{low}: {place_of(upload, at)}")

    def train(self, parent: State | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> State:
        pieces = [*lesson.pieces, *lesson.rehearsed]
        x, y = self._data(pieces)
        estimator = self._restored(parent, seed)
        for epoch in range(self.epochs):
            hashes = np.concatenate([upload.hashes(derive(seed, "order", epoch), held) for upload, held in pieces])
            order = np.argsort(hashes, kind="stable")
            estimator.partial_fit(x[order], y[order], classes=np.arange(self.classes))
            tick(epoch + 1, self.epochs)
        state = _fitted(estimator)
        for name, value in state.items():  # -inf is the logarithm of a class that has no sample
            if value.dtype.kind == "f" and (np.isnan(value) | (value == np.inf)).any():
                raise DivergedError(f"training diverged: {name} is no longer finite")
        return state

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one input, flat."""
        return (self.features,)

    def _data(self, pieces: Sequence[Piece]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        arrays = [cast(_WithData, upload).arrays(held) for upload, held in pieces]
        y = np.concatenate([labels for _, labels in arrays])
        return np.concatenate([self._inputs(x) for x, _ in arrays]), y

    def _inputs(self, x: Any, whose: str = "") -> NDArray[np.float64]:
        flat = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
        if flat.shape[1] != self.features:
            raise ArrivalError(f"inputs{whose} have {flat.shape[1]} features, not {self.features}")
        return flat

    def _restored(self, state: State | None, seed: bytes) -> Any:
        estimator = clone(self._estimator)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=int.from_bytes(seed[:4], "big") % 2**31)
        for name, value in (state or {}).items():
            setattr(estimator, name, value.copy() if value.ndim else value.item())
        return estimator

    def predict(self, state: State, x: Any) -> NDArray[np.floating]:
        return self.predictor(state)(x)

    def predictor(self, state: State) -> Callable[[Any], NDArray[np.floating]]:
        """What predicts with a state again and again."""
        return partial(self._predict, self._restored(state, bytes(32)))

    def _predict(self, estimator: Any, x: Any) -> NDArray[np.floating]:
        inputs = self._inputs(x)
        if hasattr(estimator, "predict_proba"):
            # without a sample of a class its logarithm is -inf; of a single sample there is no variance
            with np.errstate(divide="ignore", invalid="ignore"):
                told = np.asarray(estimator.predict_proba(inputs))
            unsure = ~np.isfinite(told).all(axis=1)
            if unsure.any():  # or it would spoil what the other heads say
                told[unsure] = getattr(estimator, "class_prior_", 1 / self.classes)
            return told
        return np.asarray(np.eye(self.classes)[estimator.predict(inputs)])

    def encode(self, state: State) -> bytes:
        buffer = io.BytesIO()
        for name in sorted(state):
            np.lib.format.write_array(buffer, np.array([name]), allow_pickle=False)
            np.lib.format.write_array(buffer, np.asarray(state[name]), allow_pickle=False)
        body = buffer.getvalue()
        return hashlib.sha256(body).digest() + body

    def decode(self, blob: bytes) -> State:
        if hashlib.sha256(blob[32:]).digest() != blob[:32]:
            raise LearnerError("a stored sub-model is damaged: its digest is another")
        buffer, state = io.BytesIO(blob[32:]), {}
        while buffer.tell() < len(blob) - 32:
            name = str(np.lib.format.read_array(buffer, allow_pickle=False)[0])
            state[name] = np.lib.format.read_array(buffer, allow_pickle=False)
        return state

    def stored_bytes(self, blob: bytes) -> int:
        return len(blob)


def _as_float64(x: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isfinite(np.asarray(x, dtype=np.float64))


def _fitted(estimator: Any) -> State:
    """What `partial_fit` left in an estimator: its arrays, and the numbers whose names end with an underscore."""
    settings = estimator.get_params()
    return {
        name: np.asarray(value)
        for name, value in vars(estimator).items()
        if name not in settings
        and (isinstance(value, np.ndarray) or (name.endswith("_") and isinstance(value, np.generic | int | float)))
    }
