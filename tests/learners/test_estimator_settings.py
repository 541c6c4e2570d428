"""Settings of an estimator that are no plain numbers: a home gives them back as they were, or refuses them at once."""

import numpy as np
import pytest
from sklearn.linear_model import Perceptron, SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB

from cause.device.device import Cause
from cause.errors import InputError
from cause.learners.described import build, describe
from cause.learners.sklearn import SklearnLearner

SETTINGS = {
    "class_weight": Perceptron(class_weight={0: 1.0, 1: 2.5, 2: 1}),
    "None": SGDClassifier(penalty=None, alpha=0.01),
    "list": GaussianNB(priors=[0.2, 0.3, 0.5]),
    "array": GaussianNB(priors=np.array([0.2, 0.3, 0.5])),
    "bool and list": MultinomialNB(fit_prior=False, class_prior=[0.2, 0.3, 0.5]),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_home_gives_back_the_settings_of_its_estimator(name, tmp_path):
    own = SklearnLearner(SETTINGS[name], classes=3, features=4)
    x, y = np.arange(48, dtype=np.float32).reshape(12, 4) % 7, np.arange(12) % 3
    with Cause(tmp_path / "d", learner=own, shards=1, slots=2) as device:
        device.learn({"ann": (x, y)})
        before = device.predict(x)
    with Cause(tmp_path / "d") as device:  # from its configuration alone
        assert device.learner.recipe_digest == own.composed(device.system).recipe_digest
        assert np.array_equal(device.predict(x), before)
        assert device.verify(processes=0).holds


def test_what_cannot_be_written_down_is_refused_when_it_is_said(tmp_path):
    odd = SklearnLearner(GaussianNB(priors=np.array([[0.5, 0.5]]).ravel().astype(np.float32)), classes=2, features=4)
    with pytest.raises(InputError, match=r"the setting priors = .* cannot be written into a home: give plain numbers"):
        Cause(tmp_path / "d", learner=odd, shards=1, slots=2)
    assert not (tmp_path / "d").exists()
    Cause(learner=odd, shards=1, slots=2)  # in memory it is nobody's affair


def test_a_description_by_hand_may_name_classes_in_a_table():
    described = {"kind": "sklearn", "estimator": "Perceptron", "classes": 2, "features": 3}
    own = build({**described, "settings": {"class_weight": {"0": 1.0, "1": 3.0}}})
    assert (
        own.recipe_digest
        == SklearnLearner(Perceptron(class_weight={0: 1.0, 1: 3.0}), classes=2, features=3).recipe_digest
    )
    assert describe(own)["settings"] == {"class_weight": {"0": 1.0, "1": 3.0}}
