"""Arguments of the Python interface: taken where their meaning is clear, and refused in one line of our own."""

import inspect
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from cause import Cause, Request
from cause.device.config import Settings, parse_config
from cause.device.settings import changed
from cause.engine.arguments import DEVICE_ARGUMENTS
from cause.errors import CauseError, InputError, RequestError
from cause.learners.described import build
from cause.learners.sklearn import SklearnLearner
from tests.device.homes import CLASSES, FEATURES, bayes, opened, samples

X, Y = samples("ann", 1, 4)


@pytest.fixture(scope="module")
def device():
    device = Cause(learner=bayes(), shards=2, slots=8)
    device.learn({"ann": samples("ann", 1, 10), "bob": samples("bob", 1, 10)})
    return device


def test_a_single_round_is_a_list_of_one(device):
    device.learn({"ann": samples("ann", device.ledger.round + 1, 5)})
    t = device.ledger.round
    (done,) = device.forget("ann", rounds=t)
    assert done.requests[0].rounds == (t,)
    assert t not in device.ledger.rounds_of("ann")
    device.learn({"ann": samples("ann", t + 1, 5)})
    device.forget("ann", rounds=np.array([t + 1]), count=2)
    device.forget("ann", samples=[(np.int64(t + 1), np.int64(4))])


def test_a_name_is_everything_of_that_user_where_nothing_is_changed(device):
    assert device.plan("bob") == device.plan(Request("bob"))


REFUSED = {
    "samples without rounds": (lambda d: d.forget("ann", samples=[1, 2]), r"as \[\(1, 3\)\], not 1"),
    "samples as a number": (lambda d: d.forget("ann", samples=5), "samples are a list"),
    "samples as singles": (lambda d: d.forget("ann", samples=[(1,)]), r"not \(1,\)"),
    "rounds as text": (lambda d: d.forget("ann", rounds="12"), "rounds are a list"),
    "a number to plan": (lambda d: d.plan(5), "cause.Request or a user's name, not a value of type int"),
    "a name to serve": (lambda d: d.serve("ann"), "a request is a cause.Request, not the text 'ann'"),
    "a number to serve": (lambda d: d.serve(5), "a request is a cause.Request, not"),
    "ragged inputs": (lambda d: d.learn({"cyd": ([[1, 2], [3]], [0, 1])}), "inputs of user 'cyd' must all have"),
    "ragged labels": (lambda d: d.learn({"cyd": (X[:2], [[0], [1, 2]])}), "labels of user 'cyd' must all have"),
    "inputs alone": (lambda d: d.learn({"cyd": X}), r"a pair of inputs and labels, \(x, y\), not an array of shape"),
    "a number": (lambda d: d.learn({"cyd": 5}), "a pair of inputs and labels"),
    "three parts": (lambda d: d.learn({"cyd": (X, Y, Y)}), "not a tuple of 3"),
    "a path": (lambda d: d.learn("data.npz"), "not as the text 'data.npz'"),
    "a pair without a user": (lambda d: d.learn((X, Y)), "inputs and labels by user"),
    "no round at all": (lambda d: d.learn(5), "inputs and labels by user"),
    "ragged inputs to predict": (lambda d: d.predict([[1, 2], [3]]), "inputs must all have the same shape"),
    "a text to predict": (lambda d: d.predict("x"), "one row a sample"),
    "words to predict": (lambda d: d.predict([["x"]]), "inputs must be numbers"),
    "nothing to predict": (lambda d: d.predict(None), "one row a sample"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(device, call, message):
    before = device.ledger.round, device.memory.stored()
    with pytest.raises(InputError, match=message) as error:
        call(device)
    assert "\n" not in str(error.value)
    assert (device.ledger.round, device.memory.stored()) == before


def test_a_home_refuses_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", "11" * 32)
    with opened(tmp_path / "home") as device:
        device.learn({"ann": samples("ann", 1, 10)})
        unusable: list[Any] = [[[1.0] * FEATURES], 5, (X, Y, Y), ([[1, 2], [3]], [0, 1])]
        for given in unusable:
            with pytest.raises(InputError, match="of user 'cyd'"):
                device.learn({"cyd": given})
        with pytest.raises(InputError, match="must all have the same shape"):
            device.stage("cyd", [[1, 2], [3]], [0, 1])
        with pytest.raises(CauseError, match="named by its number"):
            device.verify([1])  # type: ignore[arg-type]
        with pytest.raises(RequestError, match="pairs of round and position"):
            device.forget("ann", samples=[1, 2])  # type: ignore[list-item]
        assert (device.ledger.round, len(device.home.inbox)) == (1, 0)


LEARNERS = {
    "an estimator": (GaussianNB(), r"GaussianNB is no learner: give SklearnLearner\(it, classes="),
    "a class of estimators": (GaussianNB, r"give SklearnLearner\(GaussianNB\(\), classes="),
    "a name": ("mlp", r"'mlp' is no learner: give TorchLearner\('mlp', classes="),
    "a number": (5, "int is no learner"),
}


@pytest.mark.parametrize(("given", "message"), LEARNERS.values(), ids=LEARNERS)
def test_what_is_no_learner_names_the_one_that_takes_it(tmp_path, given, message):
    with pytest.raises(InputError, match=message):
        Cause(learner=given)
    with pytest.raises(InputError, match=message):
        Cause(tmp_path / "home", learner=given)
    assert not (tmp_path / "home").exists()


def test_a_network_is_no_learner():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="Linear is no learner: give TorchLearner"):
        Cause(learner=torch.nn.Linear(2, 2))


UNKNOWN = {
    "a device in memory": (lambda p: Cause(learner=bayes(), shard=2), "Cause has no 'shard' .did you mean 'shards'"),
    "a home": (lambda p: Cause(p / "h", learner=bayes(), retane="2 rounds"), "'retane' .did you mean 'retain'"),
    "a learner": (
        lambda p: SklearnLearner(GaussianNB(), classes=4, **{"feature": 6}),
        "SklearnLearner has no 'feature' .did you mean 'features'",
    ),
    "a description": (
        lambda p: build({"kind": "sklearn", "estimator": "GaussianNB", "classes": 4, "features": 6, "epoch": 2}),
        "has no 'epoch' .did you mean 'epochs'",
    ),
    "a configuration": (lambda p: parse_config(b"[device]\nslot = 2\n", "x"), "no 'slot' .did you mean 'slots'"),
    "a table": (lambda p: parse_config(b"[devise]\n", "x"), "did you mean 'device'"),
    "a setting": (
        lambda p: changed(parse_config(b'[key]\nenv = "K"\n', "x"), {"retains": "2 rounds"}),
        "no setting 'retains' .did you mean 'retain'",
    ),
}


@pytest.mark.parametrize(("call", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_name_names_the_nearest_known_one(tmp_path, call, message):
    with pytest.raises(InputError, match=message):
        call(tmp_path)


def test_an_unknown_argument_of_a_network_names_the_nearest_known_one():
    from cause.learners.torch import TorchLearner

    with pytest.raises(InputError, match=r"TorchLearner has no 'epoch' .did you mean 'epochs'"):
        TorchLearner("mlp", classes=4, shape=(6,), epoch=3)


def test_the_arguments_that_are_known_are_those_that_there_are():
    own = {name for name in inspect.signature(Cause).parameters if name != "unknown"}
    assert set(DEVICE_ARGUMENTS) == own | {field.name for field in fields(Settings)}


NUMBERS = {"shards": 2.5, "slots": "8", "classes": "4", "seed": "a", "workers": "two"}


@pytest.mark.parametrize(("name", "value"), NUMBERS.items(), ids=NUMBERS)
def test_a_number_that_is_none_is_refused(name, value):
    with pytest.raises(InputError, match=f"{name} must be a whole number, not {value!r}"):
        Cause(learner=bayes(), **{name: value})


def test_one_class_is_too_few_and_the_message_says_so():
    with pytest.raises(InputError, match="at least 2 classes apart, not 1"):
        SklearnLearner(GaussianNB(), classes=1, features=6)
    with pytest.raises(InputError, match="at least 1, not 0 and 1"):
        SklearnLearner(GaussianNB(), classes=CLASSES, features=0)


def test_what_is_no_folder_and_no_system_is_refused():
    with pytest.raises(InputError, match="a home is the path of a folder"):
        Cause(bayes())
    with pytest.raises(InputError, match="a preset's name"):
        Cause(learner=bayes(), system=5)  # type: ignore[arg-type]
