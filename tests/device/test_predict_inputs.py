"""Inputs that no learner can answer are refused by one line, the same for every kind of learner."""

import numpy as np
import pytest

from cause.device.device import Cause
from cause.errors import InputError
from cause.learners.additive import AdditiveLearner
from cause.learners.sklearn import SklearnLearner


def estimator():
    from sklearn.naive_bayes import GaussianNB

    return SklearnLearner(GaussianNB(), classes=3, features=4)


def perceptron():
    from sklearn.linear_model import Perceptron

    return SklearnLearner(Perceptron(), classes=3, features=4)


def network():
    from cause.learners.torch import TorchLearner

    return TorchLearner("mlp", classes=3, shape=(4,), epochs=1)


def additive():
    return AdditiveLearner(classes=3, features=4, scale=(-3, 3))


LEARNERS = [estimator, perceptron, network, additive]
X = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)


def holding(index, value):
    x = X.copy()
    x[index] = value
    return x


@pytest.fixture(params=LEARNERS)
def device(request):
    made = Cause(learner=request.param(), slots=4)
    made.learn({"ann": (X, np.arange(10) % 3)})
    return made


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[:0], r"there is nothing to predict: inputs of shape \(0, 4\) have no row"),
        ([], "there is nothing to predict"),
        (X[:0, :2], "there is nothing to predict"),
        (holding((3, 1), np.nan), "input 3 .*not finite|row 3 is nan"),
        (holding((3, 1), np.inf), "input 3 .*not finite|row 3 is inf"),
        (np.ma.masked_array(X, mask=X > 1), r"inputs have \d masked values: fill them"),
        ([np.ma.masked_array(row, mask=row > 1) for row in X], r"inputs have \d masked values: fill them"),
        ([[1, 2], [3]], "must all have the same shape"),
        (X.astype(object), "must be numbers"),
        (X[:, :3], "3|shape"),
    ],
)
def test_what_cannot_be_answered_is_refused_for_every_learner(device, x, message):
    with pytest.raises(InputError, match=message) as error:
        device.predict(x)
    assert "\n" not in str(error.value)


def test_a_mask_that_hides_nothing_is_no_mask(device):
    assert np.array_equal(device.predict(np.ma.masked_array(X, mask=False)), device.predict(X))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ma.masked_array(X, mask=X > 1), np.arange(10) % 3),
        (X, np.ma.masked_array(np.arange(10) % 3, mask=[True] + [False] * 9)),
        ([np.ma.masked_array(row, mask=row > 1) for row in X], np.arange(10) % 3),
    ],
)
def test_masked_uploads_are_refused_and_nothing_is_recorded(device, x, y):
    with pytest.raises(InputError, match=r"of user 'bob' have \d masked values"):
        device.learn({"bob": (x, y)})
    with pytest.raises(InputError, match=r"have \d masked values"):
        device.forget("ann", matching=(x, y))
    assert device.ledger.rounds_of("bob") == []


def test_labels_that_are_booleans_are_0_and_1(device):
    (one, other) = (Cause(learner=device.learner, slots=4) for _ in range(2))
    one.learn({"ann": (X, X[:, 0] > 0)})
    other.learn({"ann": (X, (X[:, 0] > 0).astype(int))})
    assert [one.load(head) for head in one.heads().values()] == [other.load(h) for h in other.heads().values()]


def test_rows_to_match_that_are_no_array_are_refused(device):
    with pytest.raises(InputError, match="the rows to match must all have the same shape"):
        device.forget("ann", matching=[[1.0, 2.0], [3.0]])
