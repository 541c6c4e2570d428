"""A device behind scikit-learn's interface: its contract, and the law."""

import copy
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import ComplementNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from cause import Cause, CauseClassifier
from cause.device.estimator import LabelError
from cause.engine.arrays import ArrayUpload
from cause.engine.ledger import MemoryLedger
from cause.engine.presets import PRESETS
from cause.errors import HomeError, InputError, NoVotersError, RequestError
from cause.executors import InProcess
from cause.lab import CountingLearner, Part, TraceUpload
from cause.lab.clean_room import clean_room, compare
from tests.clean_room import differences
from tests.quick import quick_only

HASH = "frugal:partition=hash"
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
USERS = np.array(["ann", "bob", "carol", "dave", "eve"])


@parametrize_with_checks([CauseClassifier()])
def test_it_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(
    [CauseClassifier(GaussianNB(), system="sisa"), CauseClassifier(ComplementNB(), system=HASH, shards=2)]
)
def test_other_estimators_and_systems_keep_the_contract_of_scikit_learn_too(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    """600 digits in three rounds of five users, and 200 to ask."""
    x, y = load_digits(return_X_y=True)
    x, names = x[:800] / 16, NAMES[y[:800]]
    users = np.random.default_rng(0).choice(USERS, size=600)
    rounds = [(x[i : i + 200], names[i : i + 200], users[i : i + 200]) for i in (0, 200, 400)]
    return rounds, x[600:], names[600:]


def learned(rounds, keep=lambda t, user: True, **settings) -> CauseClassifier:
    """Return a classifier that learned the kept samples only; rounds without any are counted."""
    model = CauseClassifier(**{"system": HASH, "shards": 3, "classes": NAMES, **settings})
    for t, (x, y, users) in enumerate(rounds, start=1):
        kept = np.array([keep(t, user) for user in users])
        if kept.any():
            model.partial_fit(x[kept], y[kept], users=users[kept])
        else:
            model.device_.learn()
    return model


# The law


@pytest.mark.parametrize(
    ("request_", "keep"),
    [
        ({"user": "bob"}, lambda t, user: user != "bob"),
        ({"user": "bob", "rounds": [1]}, lambda t, user: (t, user) != (1, "bob")),
        ({"user": "eve", "rounds": [2, 3]}, lambda t, user: t == 1 or user != "eve"),
    ],
    ids=["everything", "the first round", "later rounds"],
)
@pytest.mark.parametrize(
    "estimator", [pytest.param(None, id="sgd", marks=pytest.mark.long), pytest.param(GaussianNB(), id="bayes")]
)
def test_after_forgetting_it_is_a_classifier_trained_without_the_samples(digits, estimator, request_, keep):
    rounds, x, _ = digits
    model, clean = learned(rounds, estimator=estimator), learned(rounds, keep, estimator=estimator)
    assert differences(model.device_, clean.device_)  # before: the comparison can fail
    report = model.forget(**request_)
    assert report.rsn > 0
    assert differences(model.device_, clean.device_) == []
    assert len(set(model.device_.memory.stored()) & set(clean.device_.memory.stored())) >= 3
    assert np.array_equal(model.predict(x), clean.predict(x))
    assert np.array_equal(model.predict_proba(x), clean.predict_proba(x))
    assert model.verify().holds


@pytest.mark.parametrize("leak", ["nothing is deleted", "tainted sub-models stay"])
def test_red_when_the_law_is_broken(digits, monkeypatch, leak):
    from cause.engine.memory import Memory

    rounds, _, _ = digits
    model, clean = learned(rounds), learned(rounds, lambda t, user: user != "bob")
    if leak == "nothing is deleted":
        monkeypatch.setattr(MemoryLedger, "delete", lambda self, selection: None)
    else:
        monkeypatch.setattr(Memory, "drop_from", lambda self, key: [])
    model.forget("bob")
    assert differences(model.device_, clean.device_)


@pytest.mark.parametrize("system", quick_only(PRESETS, ("frugal", "cause", "cause-printed")))
def test_every_preset_is_exact_given_the_partition(digits, system):
    rounds, _, _ = digits
    model = learned(rounds, system=system)
    model.forget("carol", rounds=[1])
    model.forget("ann", rounds=[2], count=7)
    codes = {name: number for number, name in enumerate(model.classes_)}
    uploads = [
        [ArrayUpload(u, t, x[users == u], [codes[name] for name in y[users == u]]) for u in USERS]
        for t, (x, y, users) in enumerate(rounds, start=1)
    ]
    comparison = compare(model.device_, clean_room(model.device_, model.device_.learner, uploads, seed=0))
    assert comparison.mismatched == []
    assert len(comparison.identical) == len(model.device_.memory.stored()) > 1


def test_named_samples_go_and_no_others(digits):
    rounds, _, _ = digits
    model = learned(rounds)
    held = model.device_.ledger.pieces_of("dave", 2)[0][1]
    model.forget("dave", samples=[(2, int(held[0])), (2, int(held[3]))])
    left = model.device_.ledger.pieces_of("dave", 2)[0][1]
    assert set(map(int, held)) - set(map(int, left)) == {int(held[0]), int(held[3])}


def test_it_goes_on_after_forgetting_and_a_user_may_return(digits):
    rounds, x, _ = digits
    model = learned(rounds[:2])
    model.forget("bob")
    third = rounds[2]
    model.partial_fit(third[0], third[1], users=third[2])
    clean = learned(rounds, lambda t, user: t == 3 or user != "bob")
    assert differences(model.device_, clean.device_) == []
    assert np.array_equal(model.predict(x), clean.predict(x))
    assert list(model.device_.ledger.rounds_of("bob")) == [3]


def test_a_row_without_a_user_is_its_own_user(digits):
    (x, y, _), *_ = digits[0]
    model = CauseClassifier(system=HASH, shards=2, classes=NAMES).fit(x, y)
    model.partial_fit(x[:5] / 2, y[:5])
    model.forget("1/17")
    clean = CauseClassifier(system=HASH, shards=2, classes=NAMES)
    kept = np.arange(len(y)) != 17
    clean.fit(x[kept], y[kept], users=[f"1/{row}" for row in np.flatnonzero(kept)])
    clean.partial_fit(x[:5] / 2, y[:5], users=[f"2/{row}" for row in range(5)])
    assert differences(model.device_, clean.device_) == []
    model.forget("2/3")
    with pytest.raises(RequestError, match="2/3"):
        model.forget("2/3")


def test_a_whole_number_is_a_user(digits):
    (x, y, _), *_ = digits[0]
    model = CauseClassifier().fit(x[:40], y[:40], users=np.arange(40) % 4)
    model.forget(np.int64(2))  # type: ignore[arg-type]
    assert list(model.device_.ledger.rounds_of("2")) == []
    assert list(model.device_.ledger.rounds_of("1")) == [1]


def test_a_class_that_came_from_the_data_and_lost_its_samples_is_a_warning(digits):
    (x, y, _), *_ = digits[0]
    users = np.where(y == "nine", "nina", "others")
    with pytest.warns(UserWarning, match="no sample of class 'nine' is left"):
        CauseClassifier().fit(x, y, users=users).forget("nina")
    CauseClassifier(classes=NAMES).fit(x, y, users=users).forget("nina")  # named by the caller: nothing to tell


def test_named_classes_do_not_depend_on_whose_data_is_there(digits):
    """The number of classes stays too: forgetting the only user of a class gives the model without that user."""
    (x, y, _), *_ = digits[0]
    users = np.where(y == "five", "nina", np.where(y < "s", "otto", "paul"))
    model, clean = (CauseClassifier(system=HASH, shards=2, classes=NAMES) for _ in range(2))
    model.fit(x, y, users=users).forget("nina")
    kept = users != "nina"
    clean.fit(x[kept], y[kept], users=users[kept])
    assert list(clean.classes_) == list(model.classes_) == sorted(NAMES)
    assert differences(model.device_, clean.device_) == []
    assert np.array_equal(model.predict_proba(x), clean.predict_proba(x))
    assert clean.score(x[kept], y[kept]) > 0.4  # in each shard one of two users


# The interface


def test_it_learns_and_scores(digits):
    rounds, x, y = digits
    model = learned(rounds, system="frugal")
    assert model.score(x, y) > 0.8
    assert list(model.classes_) == sorted(NAMES)
    assert model.n_features_in_ == 64


def test_fit_begins_anew_and_is_deterministic(digits):
    rounds, _, _ = digits
    first, again = (learned(rounds[:1]) for _ in range(2))
    again.partial_fit(rounds[1][0], rounds[1][1])
    again.fit(rounds[0][0], rounds[0][1], users=rounds[0][2])
    assert again.device_.ledger.round == 1
    assert differences(first.device_, again.device_) == []
    other = learned(rounds[:1], random_state=1)
    assert differences(first.device_, other.device_)


def test_without_a_seed_each_fit_is_another(digits):
    (x, y, users), *_ = digits[0]
    one, two = (CauseClassifier(random_state=None).fit(x, y, users=users) for _ in range(2))
    assert differences(one.device_, two.device_)


def test_clone_and_parameters(digits):
    model = CauseClassifier(SGDClassifier(loss="log_loss"), system="sisa", shards=2, slots=9)
    copied = clone(model.set_params(estimator__alpha=0.01, epochs=3))
    assert copied.get_params()["estimator__alpha"] == 0.01
    assert (copied.system, copied.shards, copied.slots, copied.epochs) == ("sisa", 2, 9, 3)
    (x, y, users), *_ = digits[0]
    assert copied.fit(x, y, users=users).device_.memory.slots == 9
    assert copied.device_.learner.epochs == 3


def test_a_copy_is_a_device_of_its_own(digits):
    rounds, x, _ = digits
    model = learned(rounds)
    copied = copy.deepcopy(model)
    assert differences(model.device_, copied.device_) == []
    before = model.predict_proba(x)
    copied.forget("bob")
    copied.partial_fit(rounds[0][0] / 2, rounds[0][1], users=rounds[0][2])
    assert np.array_equal(model.predict_proba(x), before)
    assert list(model.device_.ledger.rounds_of("bob")) == [1, 2, 3]
    assert copied.verify().holds


def test_a_copy_trains_where_it_is():
    """Workers are not copied: the bits are the same without them."""
    with Cause(learner=CountingLearner(), shards=1, slots=2, workers=1) as device:
        device.learn([TraceUpload("ann", 1, (Part(3),))])
        copied = copy.deepcopy(device)
    assert isinstance(copied.engine.executor, InProcess)
    assert copied.forget("ann", rounds=[1], count=1)[0].rsn == 2


def test_it_works_in_a_pipeline_and_in_a_search(digits):
    (x, y, users), *_ = digits[0]
    pipeline = make_pipeline(FunctionTransformer(lambda x: x * 2), CauseClassifier(shards=1))
    pipeline.fit(x, y, causeclassifier__users=users)
    assert pipeline[-1].forget("bob").rsn > 0
    assert cross_val_score(CauseClassifier(shards=1), x, y, cv=2).min() > 0.6


def test_a_learner_brings_its_classes(digits):
    from cause.learners.sklearn import SklearnLearner

    (x, y, users), *_ = digits[0]
    learner = SklearnLearner(GaussianNB(), classes=10, features=64)
    model = CauseClassifier(learner, shards=1).partial_fit(x, np.arange(len(y)) % 3, users=users)
    assert list(model.classes_) == list(range(10))
    with pytest.raises(LabelError, match="label 'zero' is none of the classes"):
        CauseClassifier(learner, shards=1).partial_fit(x[:1], ["zero"])


def test_a_network_can_be_the_learner(digits):
    from cause.learners.torch import TorchLearner

    (x, y, users), *_ = digits[0]
    learner = TorchLearner("mlp", classes=10, shape=(64,), epochs=4)
    model = clone(CauseClassifier(learner, shards=1, classes=NAMES)).fit(x, y, users=users)
    model.forget("bob")
    kept = users != "bob"
    clean = CauseClassifier(learner, shards=1, classes=NAMES).fit(x[kept], y[kept], users=users[kept])
    assert np.array_equal(model.predict_proba(x), clean.predict_proba(x))
    assert differences(model.device_, clean.device_) == []


def test_importing_cause_does_not_import_scikit_learn():
    code = "import cause, sys; from cause import Cause; print('sklearn' in sys.modules, cause.__all__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("False"), done.stderr
    assert "CauseClassifier" not in done.stdout


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"users": ["a"] * 3}, "inconsistent numbers of samples"),
        ({"users": [[name] for name in "abcd"]}, r"not of shape \(4, 1\)"),
        ({"users": [1.5] * 4}, "a text or a whole number, not 1.5"),
        ({"users": [True] * 4}, "a text or a whole number, not True"),
        ({"users": np.array(["a", None, "b", "c"], dtype=object)}, "a text or a whole number, not None"),
        ({"users": [""] * 4}, "1 to 256 characters"),
    ],
)
def test_users_that_are_none_are_refused(arguments, message):
    model = CauseClassifier(classes=[0, 1])
    with pytest.raises((InputError, ValueError), match=message):
        model.fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], **arguments)
    assert not hasattr(model, "device_")
    model.fit([[0.0], [1.0]], [0, 1])
    with pytest.raises((InputError, ValueError), match=message):
        model.partial_fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], **arguments)
    with pytest.raises((InputError, ValueError), match=message):
        model.fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], **arguments)
    assert model.device_.ledger.rounds_of("1/1") == [1]  # nothing was changed
    assert model.device_.ledger.round == 1


def test_labels_that_do_not_fit_are_refused():
    x, y = [[0.0], [1.0]], ["a", "b"]
    with pytest.raises(LabelError, match="all samples are of one class, 'a'"):
        CauseClassifier().fit(x, ["a", "a"])
    with pytest.raises(LabelError, match="needs all classes"):
        CauseClassifier().partial_fit(x, y)
    with pytest.raises(LabelError, match="at least two classes"):
        CauseClassifier(classes=["a"]).fit(x, y)
    model = CauseClassifier().partial_fit(x, y, classes=["a", "b"])
    with pytest.raises(LabelError, match=r"classes cannot change: they were \['a', 'b'\], not \['a', 'c'\]"):
        model.partial_fit(x, y, classes=["a", "c"])
    with pytest.raises(LabelError, match="label 'c' is none of the classes"):
        model.partial_fit(x, ["a", "c"])
    assert model.partial_fit(x, y, classes=["b", "a"]).device_.ledger.round == 2


def test_what_cannot_be_done_is_said():
    with pytest.raises(InputError, match="RandomForestClassifier cannot be stored without pickle"):
        CauseClassifier(RandomForestClassifier()).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(NotFittedError):
        CauseClassifier().forget("ann")
    with pytest.raises(NotFittedError):
        CauseClassifier().verify()
    with pytest.raises(InputError, match="only a classifier with a home"):
        CauseClassifier().reopen()
    model = CauseClassifier(classes=[0, 1]).fit([[0.0], [1.0]], [0, 1], users=["ann", "ann"])
    model.forget("ann")
    with pytest.raises(NoVotersError, match="no shard can vote"):
        model.predict([[0.0]])


def test_negative_inputs_are_refused_before_the_round_is_recorded():
    model = CauseClassifier(ComplementNB(), classes=[0, 1]).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="Negative values"):
        model.partial_fit([[-1.0]], [0])
    assert model.device_.ledger.round == 1


# In a home


def test_a_home_goes_on_in_another_process(digits, tmp_path):
    rounds, x, _ = digits
    settings = {"home": tmp_path / "device", "slots": 20}
    model = learned(rounds[:2], **settings)
    report = model.forget("bob")
    model.device_.close()
    again = CauseClassifier(**model.get_params()).reopen()
    clean = learned(rounds[:2], lambda t, user: user != "bob", slots=20)
    assert again.n_features_in_ == 64
    assert np.array_equal(again.predict(x), clean.predict(x))
    assert again.verify(report.ids[0]).holds
    again.device_.close()
    third = rounds[2]
    later = CauseClassifier(**model.get_params()).partial_fit(third[0], third[1], users=third[2])
    assert later.device_.ledger.round == 3
    with pytest.raises(InputError, match="has learned already"):
        later.fit(third[0], third[1])
    with pytest.raises(InputError, match="its folder is what lasts"):
        copy.deepcopy(later)
    later.device_.close()
    with pytest.raises(InputError, match="has learned already") as refused:
        CauseClassifier(**model.get_params()).fit(third[0], third[1])
    again.reopen().device_.close()  # what was refused holds no lock
    assert refused.value


def test_a_home_wants_its_classes_named(digits, tmp_path):
    (x, y, _), *_ = digits[0]
    with pytest.raises(LabelError, match="a home keeps no names of classes"):
        CauseClassifier(home=tmp_path / "device").fit(x, y)
    with pytest.raises(LabelError, match="a home keeps no names of classes"):
        CauseClassifier(home=tmp_path / "device").reopen()
    assert not (tmp_path / "device").exists()
    with pytest.raises(HomeError, match="is not a home"):
        CauseClassifier(home=tmp_path / "device", classes=NAMES).reopen()
