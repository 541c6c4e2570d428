"""CauseClassifier: a device as a scikit-learn estimator, with `forget`."""

import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import SGDClassifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, check_non_negative, validate_data

from cause.common.names import normal_name
from cause.device.device import Cause, Forgotten
from cause.device.verify import Verification
from cause.engine.learner import Learner
from cause.engine.presets import System
from cause.engine.vote_proba import vote_proba
from cause.errors import InputError
from cause.learners.sklearn import SklearnLearner

if TYPE_CHECKING:
    from cause.device.receipts.receipts import Bundle

Array = NDArray[Any]
Uploads = dict[str, tuple[Array, NDArray[np.int64]]]


class LabelError(InputError, ValueError):
    """Labels or classes that do not fit: also the ValueError that scikit-learn's tools expect."""


class CauseClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that learns round after round, and forgets exactly the samples that a request names.

    Each call of `fit` or `partial_fit` gives a round of samples to `cause.Cause`; `fit` begins anew.

    Parameters
    ----------
    estimator
        An estimator of a family that `SklearnLearner` supports, or a learner such as `TorchLearner`. Without one:
        logistic regression by gradient descent, `SGDClassifier(loss="log_loss")`.
    system, shards, memory, slots
        As in `Cause`: how data is partitioned and which sub-models are kept in which room. Without `shards` there are
        four, or one with an additive learner.
    epochs
        How often an estimator goes through a segment; a learner says so itself.
    classes
        All labels that there will ever be. Without them `fit` takes those of the data (a learner: 0, 1, 2 …), and then
        a class stays in the model even when its last sample is forgotten, with a warning.
    random_state
        The seed of everything random.
    home
        A folder in which the device lives; in memory without one. A home keeps no names of classes, so `classes` must
        be given, and `fit` wants a new one: `partial_fit` goes on with one that exists, and `reopen` opens it.

    Attributes
    ----------
    classes_, n_features_in_
        As in all of scikit-learn.
    device_
        The `Cause`, for what is not offered here: plans, repairs, receipts.

    Examples
    --------
    >>> x, y = np.array([[0.0], [0.1], [0.9], [1.0]]), np.array(["low", "low", "high", "high"])
    >>> model = CauseClassifier(shards=1).fit(x, y, users=["ann", "bob", "ann", "bob"])
    >>> model.forget("bob").rsn  # the two samples of ann were trained again
    2
    >>> model.predict([[0.0], [1.0]])
    array(['low', 'high'], dtype='<U4')
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        system: System | str | None = None,
        shards: int | None = None,
        memory: str | int | None = None,
        slots: int | None = None,
        epochs: int = 10,
        classes: ArrayLike | None = None,
        random_state: Any = 0,
        home: str | PathLike[str] | None = None,
    ) -> None:
        self.estimator = estimator
        self.system = system
        self.shards = shards
        self.memory = memory
        self.slots = slots
        self.epochs = epochs
        self.classes = classes
        self.random_state = random_state
        self.home = home

    # Learning

    def fit(self, X: ArrayLike, y: ArrayLike, users: ArrayLike | None = None) -> "CauseClassifier":  # noqa: N803
        """Learn from scratch: one round, of which `users` says whose each sample is.

        A user is a text or a whole number, which is its text. Without users each row is a user of its own, named after
        its round and its row: "1/0", "1/1", …
        """
        x, labels = self._checked(X, y, first=True)
        named = self._named(None)
        class_labels = self._classes_of(labels) if named is None else named
        uploads = _by_user(1, x, _numbered(labels, class_labels), users)
        used = self.home is not None and hasattr(self, "device_")  # and then it is locked
        device = None if used else self._device(class_labels, self._learner(len(class_labels)))
        if device is None or device.ledger.round:
            _close(device)
            raise InputError(f"{str(self.home)!r} has learned already: `partial_fit` goes on, a new folder begins anew")
        return self._with(device, class_labels, uploads, from_data=named is None)

    def partial_fit(
        self,
        X: ArrayLike,  # noqa: N803
        y: ArrayLike,
        classes: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> "CauseClassifier":
        """Learn one more round. The first call needs all classes, here or in the constructor.

        Parameters
        ----------
        X, y
            Inputs, and their labels.
        classes
            All labels that there will ever be; needed in the first call unless the constructor was given them.
        users
            Whose each sample is; without it each row is a user of its own.
        """
        if hasattr(self, "device_"):
            x, labels = self._checked(X, y, first=False)
            if classes is not None and not np.array_equal(_sorted(classes), self.classes_):
                raise LabelError(f"classes cannot change: they were {self.classes_.tolist()}, not {_listed(classes)}")
            numbers = _numbered(labels, self.classes_)
            self.device_.learn(_by_user(self.device_.ledger.round + 1, x, numbers, users))
            return self
        x, labels = self._checked(X, y, first=True)
        class_labels = self._named(classes)
        if class_labels is None:
            raise LabelError("the first call of partial_fit needs all classes that there will be: classes=[…]")
        numbers = _numbered(labels, class_labels)
        _names(1, len(numbers), users)  # refuse what is wrong before a home is made
        device = self._device(class_labels, self._learner(len(class_labels)))
        return self._with(device, class_labels, _by_user(device.ledger.round + 1, x, numbers, users), from_data=False)

    def reopen(self) -> "CauseClassifier":
        """Open an existing home and continue from its state."""
        if self.home is None:
            raise InputError("only a classifier with a home can be opened again: home='device/'")
        class_labels = self._named(None)
        if class_labels is None:
            raise LabelError("a home keeps no names of classes: name all of them, classes=[…]")
        _close(getattr(self, "device_", None))
        self._with(self._device(class_labels, self._own_learner()), class_labels, None, from_data=False)
        features = self.device_.learner.features
        if features is not None:
            self.n_features_in_ = features
        return self

    def _with(self, device: Cause, classes: Array, uploads: Uploads | None, *, from_data: bool) -> "CauseClassifier":
        """Return this object with another device, once that has learned: a mistake changes nothing."""
        try:
            if uploads is not None:
                device.learn(uploads)
        except BaseException:
            _close(device)
            raise
        self.device_, self.classes_, self._from_data = device, classes, from_data
        return self

    def _device(self, classes: Array, learner: Learner | None) -> Cause:
        seed = None  # a home's own
        if isinstance(self.random_state, Integral):
            seed = int(self.random_state)
        elif self.home is None or self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(2**31))
        return Cause(
            self.home,
            learner=learner,
            system=self.system,
            shards=self.shards,
            memory=self.memory,
            slots=self.slots,
            classes=len(classes),
            seed=seed,
        )

    def _own_learner(self) -> Learner | None:
        return cast(Learner, self.estimator) if hasattr(self.estimator, "recipe_digest") else None

    def _learner(self, classes: int) -> Learner:
        made = SGDClassifier(loss="log_loss") if self.estimator is None else self.estimator
        return self._own_learner() or SklearnLearner(
            made, classes=classes, features=self.n_features_in_, epochs=self.epochs
        )

    def _named(self, classes: ArrayLike | None) -> Array | None:
        """Return the classes that the caller or the learner names; they never come from data that may be forgotten."""
        named, own = self.classes if classes is None else classes, self._own_learner()
        if named is not None:
            return _sorted(named)
        return np.arange(own.classes) if own is not None and own.classes is not None else None

    def _classes_of(self, labels: Array) -> Array:
        if self.home is not None:
            raise LabelError("a home keeps no names of classes: name all of them, classes=[…]")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise LabelError(
                f"all samples are of one class, {classes.tolist()[0]!r}: name all that there will be, classes=[…]"
            )
        return classes

    def _checked(self, x: ArrayLike, y: ArrayLike, *, first: bool) -> tuple[Array, Array]:
        inputs, labels = validate_data(self, x, y, reset=first)
        check_classification_targets(labels)
        if get_tags(self).input_tags.positive_only:
            check_non_negative(inputs, type(self.estimator).__name__)  # before the round is recorded
        return inputs, labels

    # Forgetting

    def forget(
        self,
        user: str | int,
        rounds: Iterable[int] | None = None,
        samples: Iterable[tuple[int, int]] | None = None,
        count: int | None = None,
    ) -> Forgotten:
        """Forget a user's everything, some rounds, the lowest `count` samples of a round, or named (round, position).

        When this returns, the model is what it would be had the samples never come. A position is a sample's rank by
        its digest among those of its user and round, not the row in which it came.

        Parameters
        ----------
        user
            Whose samples.
        rounds
            Of which rounds; of all without it.
        samples
            Pairs of (round, position).
        count
            How many samples of one round, those with the lowest positions.
        """
        check_is_fitted(self)
        (report,) = self.device_.forget(str(user), rounds=rounds, samples=samples, count=count)
        empty = self._classes_without_samples() if self._from_data else []
        if empty:
            warnings.warn(
                f"no sample of class {empty[0]!r} is left, but `classes_`, which came from the data, still names it: "
                "name classes=[…] beforehand, or fit anew",
                stacklevel=2,
            )
        return report

    def _classes_without_samples(self) -> list[Any]:
        ledger = self.device_.ledger
        pieces = [piece for shard in ledger.shards() for segment in ledger.lineage(shard) for piece in segment.pieces]
        left = {int(label) for upload, held in pieces for label in np.unique(upload.labels(held))}
        return [label for number, label in enumerate(self.classes_.tolist()) if number not in left]

    def verify(self, receipt: "int | str | Bundle | None" = None, *, processes: int = 0) -> Verification:
        """Train again from the retained data alone, here or in fresh processes, and compare every stored bit."""
        check_is_fitted(self)
        return self.device_.verify(receipt, processes=processes)

    # Answering

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """Return the label of each sample, by a vote of the heads."""
        inputs = self._inputs(X)
        return np.asarray(self.classes_[self.device_.predict(inputs)])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return each label's share of the vote of the heads; these are not calibrated probabilities."""
        inputs = self._inputs(X)
        weights, probabilities = self.device_.votes(inputs)
        return vote_proba(self.device_.system.vote, probabilities, weights)

    def _inputs(self, x: ArrayLike) -> Array:
        check_is_fitted(self)
        return cast(Array, validate_data(self, x, reset=False))

    # What scikit-learn asks

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "device_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None and self._own_learner() is None:
            wrapped = get_tags(self.estimator)
            tags.input_tags.positive_only = wrapped.input_tags.positive_only
            tags.classifier_tags.poor_score = wrapped.classifier_tags.poor_score
        return tags


def _sorted(classes: ArrayLike) -> Array:
    labels = np.unique(np.asarray(classes))
    if len(labels) < 2:
        raise LabelError(f"a classifier needs at least two classes, not {labels.tolist()}")
    return labels


def _listed(classes: ArrayLike) -> list[Any]:
    return cast(list[Any], np.asarray(classes).tolist())


def _numbered(labels: Array, classes: Array) -> NDArray[np.int64]:
    """Return labels as numbers from 0."""
    unknown = labels[~np.isin(labels, classes)]
    if len(unknown):
        raise LabelError(f"label {unknown.tolist()[0]!r} is none of the classes {classes.tolist()}")
    return np.searchsorted(classes, labels).astype(np.int64)


def _close(device: Cause | None) -> None:
    if device is not None:
        device.close()


def _by_user(round_: int, x: Array, y: NDArray[np.int64], users: ArrayLike | None) -> Uploads:
    rows: dict[str, list[int]] = {}
    for row, user in enumerate(_names(round_, len(y), users)):
        rows.setdefault(user, []).append(row)
    return {user: (x[own], y[own]) for user, own in rows.items()}


def _names(round_: int, count: int, users: ArrayLike | None) -> Sequence[str]:
    if users is None:
        return [f"{round_}/{row}" for row in range(count)]
    listed = np.asarray(users)
    check_consistent_length(np.empty(count), listed)
    if listed.ndim != 1:
        raise InputError(f"users are a list of one id for each sample, not of shape {listed.shape}")
    for user in listed.tolist():
        if not isinstance(user, str | int) or isinstance(user, bool):
            raise InputError(f"a user is a text or a whole number, not {user!r}")
    names = {user: normal_name(str(user)) for user in set(listed.tolist())}
    return [names[user] for user in listed.tolist()]
