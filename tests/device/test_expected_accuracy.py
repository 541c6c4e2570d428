"""The accuracy that an additive device expects: an estimate of one state, kept nowhere."""

import numpy as np
import pytest

from cause import AdditiveLearner, Cause, SklearnLearner
from cause.device import expected_accuracy as module
from cause.device.expected_accuracy import expected_accuracy, quick_estimate
from tests.device.homes import MASTER

CENTRES = np.random.default_rng(3).normal(scale=1.2, size=(3, 4))


def upload(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    y = draw.integers(3, size=n)
    return CENTRES[y] + draw.normal(size=(n, 4)), y


def learner(**arguments) -> AdditiveLearner:
    return AdditiveLearner(**{"features": 4, "scale": (-6, 6), "classes": 3, **arguments})


def test_few_samples_are_all_predicted():
    device = Cause(learner=learner())
    device.learn({"ann": upload(60, 0), "bob": upload(40, 1)})
    whole, quick = expected_accuracy(device), quick_estimate(device)
    assert quick is not None
    assert (quick.samples, quick.correct, quick.held) == (whole.samples, whole.correct, 100)


def test_inputs_of_several_types_are_kept_beside_each_other():
    """With `keep="samples"` a row ends with the input, so rows of float32 and of float64 have different lengths."""
    device, plain = (Cause(learner=learner(keep=keep)) for keep in ("samples", "features"))
    for each in (device, plain):
        for kind in (np.float32, np.float64, np.int8):
            x, y = upload(30, 0)
            each.learn({"ann": (x.astype(kind), y)})
    whole, quick, expected = expected_accuracy(device), quick_estimate(device), quick_estimate(plain)
    assert quick is not None
    assert expected is not None
    assert (quick.samples, quick.correct) == (whole.samples, whole.correct) == (90, expected.correct)


def test_of_many_samples_some_are_drawn_and_say_about_the_same():
    device = Cause(learner=learner())
    for t in range(20):
        device.learn({"ann": upload(100, t), "bob": upload(50, 100 + t)})
    whole, quick = expected_accuracy(device), quick_estimate(device, most=700)
    assert quick is not None
    assert (quick.samples, quick.held) == (700, 3000)
    assert quick.accuracy == pytest.approx(whole.accuracy, abs=0.06)
    again = quick_estimate(device, most=700)
    assert again is not None
    assert again.correct == quick.correct  # the same state has the same estimate
    assert "method" in quick.as_dict()


def test_an_estimate_belongs_to_one_state():
    device, clean = (Cause(learner=learner()) for _ in range(2))
    device.learn({"ann": upload(30, 0), "bob": upload(40, 1)})
    clean.learn({"bob": upload(40, 1)})
    before = quick_estimate(device)
    device.forget("ann")
    after, expected = quick_estimate(device), quick_estimate(clean)
    assert before is not None
    assert after is not None
    assert expected is not None
    assert before.identity != after.identity == expected.identity
    assert (after.samples, after.correct, after.held) == (expected.samples, expected.correct, 40)


def test_there_is_none_without_samples_for_other_learners_and_for_large_heads(monkeypatch):
    from sklearn.naive_bayes import GaussianNB

    assert quick_estimate(Cause(learner=learner())) is None
    other = Cause(learner=SklearnLearner(GaussianNB(), classes=3, features=4), shards=1)
    other.learn({"ann": upload(30, 0)})
    assert quick_estimate(other) is None
    monkeypatch.setattr(module, "MOST_FEATURES", 3)
    large = Cause(learner=learner())
    large.learn({"ann": upload(30, 0)})
    assert quick_estimate(large) is None


def test_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    folder = tmp_path / "home"
    with Cause(folder, learner=learner(), key={"env": "CAUSE_TEST_KEY"}) as device:
        device.learn({"ann": upload(30, 0)})

    def contents() -> dict[str, bytes]:
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {str(path): path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal", "lock"))}

    before = contents()
    with Cause(folder, read_only=True) as device:
        assert quick_estimate(device) is not None
    assert contents() == before
