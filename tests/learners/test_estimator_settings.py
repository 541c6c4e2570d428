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
    "numbers of numpy": SGDClassifier(class_weight={np.int64(label): np.float32(1.5) for label in range(3)}),
    "a number of numpy": GaussianNB(var_smoothing=np.float64(1e-8)),
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


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (GaussianNB(priors=[0.5, 0.5]), r"priors are a list of 3 numbers, one for each class, not \[0.5, 0.5\]"),
        (GaussianNB(priors=[0.5, 0.5, 0.5]), "priors are shares that sum to 1, not to 1.5"),
        (GaussianNB(priors="abc"), "priors are a list of 3 numbers, one for each class, not 'abc'"),
        (MultinomialNB(class_prior=[0.5, 0.5]), "class_prior are a list of 3 numbers"),
        (SGDClassifier(class_weight={0: 1.0, 7: 2.0}), "class_weight names class 7, but there are 3 classes"),
        (Perceptron(class_weight={0: 1.0, 1: 2.0}), "class_weight has no weight for class 2: name all 3 classes"),
        (Perceptron(class_weight={"a": 1.0}), "class_weight names class 'a'"),
        (SGDClassifier(class_weight="balanced"), "'balanced' would be fitted on data that may be forgotten"),
        (SGDClassifier(early_stopping=True), "early_stopping=True holds samples back"),
        (SGDClassifier(loss="huberr"), "SGDClassifier cannot learn with these settings: The 'loss' parameter"),
        (SGDClassifier(alpha="x"), "SGDClassifier cannot learn with these settings"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_line_when_they_are_said(estimator, message):
    with pytest.raises(InputError, match=message) as error:
        SklearnLearner(estimator, classes=3, features=4)
    assert "\n" not in str(error.value)


def test_an_unknown_setting_names_the_nearest_one():
    table = {"kind": "sklearn", "estimator": "GaussianNB", "classes": 3, "features": 4}
    with pytest.raises(InputError, match=r"the estimator GaussianNB has no 'prior' \(did you mean 'priors'\?\)"):
        build({**table, "settings": {"prior": [0.2, 0.3, 0.5]}})


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: SklearnLearner(GaussianNB(), **{"clases": 3, "features": 4}), "did you mean 'classes'"),
        (lambda: SklearnLearner(GaussianNB(), **{"features": 4}), "missing a required argument: 'classes'"),
        (lambda: additive(exapnd=4), "did you mean 'expand'"),
        (lambda: torch(epoch=4), "did you mean 'epochs'"),
        (lambda: torch(thread=2), "did you mean 'threads'"),
    ],
)
def test_an_unknown_argument_of_a_learner_names_the_nearest_one(make, hint):
    with pytest.raises(InputError, match=hint):
        make()


def additive(**arguments):
    from cause.learners.additive import AdditiveLearner

    return AdditiveLearner(classes=3, features=4, scale=(0, 1), **arguments)


def torch(**arguments):
    from cause.learners.torch import TorchLearner

    return TorchLearner("mlp", classes=3, shape=(4,), **arguments)
