"""Estimators without torch: exact, stored without pickle, and only those that can be."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Perceptron, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB

from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.arrays import ArrayUpload, TraceData
from cause.engine.presets import FIXED, PRESETS, System
from cause.engine.samples import Part, TraceUpload
from cause.errors import InputError, LearnerError
from cause.learners.sklearn import FAMILIES, SklearnLearner
from tests.clean_room import clean_room, differences, live
from tests.learners.test_torch import CLASSES, SCENE, image, lesson, upload

ESTIMATORS = [
    SGDClassifier(loss="log_loss"),
    SGDClassifier(loss="hinge", average=True),
    Perceptron(),
    GaussianNB(),
    MultinomialNB(),
    BernoulliNB(),
    ComplementNB(),
]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: str(estimator))


def learner(estimator, **changes) -> SklearnLearner:
    return SklearnLearner(estimator, classes=CLASSES, features=64, **changes)


def with_data(upload) -> TraceData:
    pairs = [image(upload.user, upload.round, int(p)) for p in upload.positions]
    return TraceData(upload, np.abs(np.stack([x for x, _ in pairs])), [y for _, y in pairs])


@every_estimator
def test_every_family_is_bit_exact(estimator):
    system, fits = System(gamma=FIXED, slices=2, rehearsal=0.5), {"slots": 20, "data": with_data}
    room = live(SCENE, system, shards=2, learner=learner(estimator, epochs=2), **fits)
    clean = clean_room(room, SCENE, system, learner=learner(estimator, epochs=2), **fits)
    assert differences(room.device, clean) == []
    assert sorted(verify(room.device, processes=0).identical) == room.device.memory.stored()


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_is_bit_exact(name):
    fits = {"slots": 12, "data": with_data}
    room = live(SCENE, PRESETS[name], shards=2, learner=learner(GaussianNB()), **fits)
    clean = clean_room(room, SCENE, PRESETS[name], learner=learner(GaussianNB()), **fits)
    assert differences(room.device, clean) == []


@every_estimator
def test_going_on_from_the_stored_arrays_is_going_on(estimator):
    trainer = learner(estimator)
    first = trainer.train(None, lesson(positive("a", 1, 20)), b"s" * 32)
    again = trainer.decode(trainer.encode(first))
    assert set(again) == set(first)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    later = trainer.train(again, lesson(positive("b", 1, 20)), b"t" * 32)
    assert any(not np.array_equal(first[name], later[name]) for name in first)


def test_going_on_equals_an_estimator_that_was_never_stored():
    from sklearn.base import clone

    trainer, live_one = learner(GaussianNB()), clone(GaussianNB())
    state = None
    for user in "abc":
        data = upload(user, count=20)
        state = trainer.train(state and trainer.decode(trainer.encode(state)), lesson(data), b"s" * 32)
        x, y = data.arrays(data.positions)
        live_one.partial_fit(x.reshape(20, -1).astype(float), y, classes=np.arange(CLASSES))
    assert state["theta_"] == pytest.approx(live_one.theta_)
    assert state["class_count_"] == pytest.approx(live_one.class_count_)


@every_estimator
def test_it_learns(estimator):
    device = Cause(learner=learner(estimator, epochs=5), system="frugal", shards=2, memory="1MB", classes=CLASSES)
    for t in (1, 2):
        device.learn([positive(user, t, 60) for user in "abcd"])
    test = positive("z", 9, 100)
    x, y = test.arrays(test.positions)
    assert (device.predict(x) == y).mean() > (0.5 if isinstance(estimator, BernoulliNB) else 0.8)


def positive(user, round_, count):
    pairs = [image(user, round_, p) for p in range(count)]
    brighter = np.stack([np.where(x > 1, x, 0) for x, _ in pairs])
    return TraceData(TraceUpload(user, round_, (Part(count),)), brighter, [y for _, y in pairs])


def robust(estimator, **parts):
    return learner(estimator).composed(replace(PRESETS["recommended"], **parts))


@pytest.mark.parametrize("estimator", [SGDClassifier(), Perceptron()], ids=repr)
def test_inputs_of_any_unit_are_learned_from_where_the_system_is_robust(estimator):
    draw = np.random.default_rng(0)
    y = draw.integers(CLASSES, size=200)
    x = draw.normal(size=(CLASSES, 64))[y] + draw.normal(0, 0.5, (200, 64))
    x[:, 4:], x[:, :4] = x[:, 4:] * 0.3, draw.normal(0, 1000, (200, 4))  # a few large columns that tell nothing
    rows = lesson(ArrayUpload("a", 1, x, y))

    def accuracy(trained):
        state = trained.decode(trained.encode(trained.train(None, rows, b"s" * 32)))
        return (trained.predict(state, x).argmax(axis=1) == y).mean()

    assert accuracy(robust(estimator)) > 0.95
    assert accuracy(learner(estimator)) < 0.6  # one pass over raw inputs, as homes of before have it


def test_a_system_that_is_not_robust_leaves_an_estimator_as_it_was():
    plain = learner(SGDClassifier())
    assert plain.composed(PRESETS["frugal"]) is plain
    assert robust(SGDClassifier()).recipe_digest != plain.recipe_digest
    assert robust(SGDClassifier()).described() == plain.described()
    assert robust(GaussianNB()).recipe_digest == learner(GaussianNB()).recipe_digest
    fewer = robust(SGDClassifier(), min_steps=1)
    assert fewer.recipe_digest != robust(SGDClassifier()).recipe_digest


def test_other_estimators_are_refused_with_a_list_of_the_supported_ones():
    with pytest.raises(InputError, match="cannot be stored without pickle: one of SGDClassifier"):
        learner(RandomForestClassifier())
    assert {type(estimator).__name__ for estimator in ESTIMATORS} == set(FAMILIES)


def test_a_damaged_sub_model_is_refused():
    trainer = learner(GaussianNB())
    blob = bytearray(trainer.encode(trainer.train(None, lesson(upload()), b"s" * 32)))
    blob[-1] ^= 1
    with pytest.raises(LearnerError, match="damaged"):
        trainer.decode(bytes(blob))


@every_estimator
def test_what_learned_a_single_sample_says_its_label_and_nothing_that_is_no_number(estimator):
    trainer, x = learner(estimator), np.abs(np.random.default_rng(0).normal(size=(5, 1, 8, 8)))
    state = trainer.train(None, lesson(TraceData(TraceUpload("a", 1, (Part(1),)), x[:1], [2])), b"s" * 32)
    probabilities = trainer.predict(state, x)
    assert np.isfinite(probabilities).all()
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert probabilities.argmax(axis=1)[0] == 2


def test_settings_are_part_of_the_recipe():
    digests = {learner(SGDClassifier(alpha=a), epochs=e).recipe_digest for a in (1e-4, 1e-3) for e in (1, 2)}
    assert len(digests) == 4


def test_wrong_features_and_labels_are_refused():
    with pytest.raises(InputError, match="64 features, not 9"):
        SklearnLearner(GaussianNB(), classes=CLASSES, features=9).check(upload())
    with pytest.raises(InputError, match="classes"):
        SklearnLearner(GaussianNB(), classes=2, features=64).check(upload(count=40))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_whatever_is_taken_can_be_trained_on(estimator):
    """One user's inputs would else stop the training of all."""
    x = np.ones((12, 4), np.float32)
    x[7, 2] = -1.0
    below = ArrayUpload("mallory", 1, x, np.arange(12) % CLASSES)
    device = Cause(learner=SklearnLearner(estimator, classes=CLASSES, features=4), shards=1, slots=4)
    if type(estimator).__name__ in ("MultinomialNB", "ComplementNB"):
        with pytest.raises(InputError, match=r"mallory' go down to -1, but .*NB learns from numbers from 0 up"):
            device.learn([below])
        assert device.ledger.round == 0
        below = ArrayUpload("mallory", 1, np.abs(x), np.arange(12) % CLASSES)
    assert len(device.learn([below]).trained) == 1


def test_a_small_board_needs_no_torch(tmp_path):
    import os

    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    code = "import cause.learners.sklearn, cause.device.device, cause.device.verify; print('not imported')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    assert (done.stdout, done.stderr) == ("not imported\n", "")
