"""How a program treats floating-point errors and warnings decides nothing about what is learned."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest

from cause.learners.sklearn import SklearnLearner
from tests.device.homes import CLASSES, FEATURES, opened


@contextmanager
def numpy_raises():
    with np.errstate(all="raise"):
        yield


@contextmanager
def warnings_raise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class Noisy(SklearnLearner):
    """Warns in each training and prediction, as estimators do of classes without a sample."""

    def train(self, *args, **options):
        warnings.warn("of a training", RuntimeWarning, stacklevel=1)
        return super().train(*args, **options)

    def predict(self, state, x):
        warnings.warn("of a prediction", RuntimeWarning, stacklevel=1)
        return super().predict(state, x)


def noisy():
    from sklearn.naive_bayes import GaussianNB

    return Noisy(GaussianNB(), classes=CLASSES, features=FEATURES)


def uploads():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(20, FEATURES))
    x[:, 3] *= 1e-170  # its square is 0
    return {user: (x + shift, draw.integers(CLASSES, size=20)) for shift, user in enumerate(["ann", "bob"])}


@pytest.mark.parametrize("host", [numpy_raises, warnings_raise])
def test_error_modes_of_the_host_change_neither_sub_models_nor_predictions(tmp_path, host):
    x = uploads()["ann"][0] * 50
    with opened(tmp_path / "plain") as plain, opened(tmp_path / "within", noisy()) as device:
        plain.learn(uploads())
        with host():
            device.learn(uploads())
            assert np.array_equal(device.predict(x), plain.predict(x))
        assert device.status().quarantined == ()
        assert [device.load(m) for m in device.heads().values()] == [plain.load(m) for m in plain.heads().values()]


@pytest.mark.parametrize("host", [numpy_raises, warnings_raise])
def test_a_home_is_made_whatever_the_host_treats_as_an_error(tmp_path, host):
    with host(), opened(tmp_path / "home", noisy()):
        pass
