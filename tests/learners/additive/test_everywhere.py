"""The additive learner in the rest of the product: the estimator, audits, energy."""

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.device.energy.model import EnergyModel, Line
from cause.device.estimator import CauseClassifier
from cause.lab.audit import auc, loss_scores


def learner(**settings) -> AdditiveLearner:
    return AdditiveLearner(features=4, scale=(-6, 6), classes=3, **settings)


def samples(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    y = draw.integers(3, size=n)
    return draw.normal(size=(n, 4)) + 3 * np.eye(3, 4)[y], y


def state_of(device: Cause) -> bytes:
    head = device.memory.head(0)
    assert head is not None
    return device.memory.shelf.get(head.key)


def test_a_classifier_with_an_additive_learner_forgets_from_scratch():
    """One shard without being asked for; the state is that of a classifier that never had the samples."""
    x, y = samples(90, 0)
    users = np.array(["ann", "bob", "eve"] * 30)
    model = CauseClassifier(learner()).fit(x, y, users=users)
    assert model.score(x, y) > 0.9
    assert model.forget("bob").rsn == 0
    clean = CauseClassifier(learner()).fit(x[users != "bob"], y[users != "bob"], users=users[users != "bob"])
    assert state_of(model.device_) == state_of(clean.device_)
    assert model.device_.controller.shards == 1
    assert CauseClassifier().fit(x, y, users=users).device_.controller.shards == 4


def test_an_audit_sees_canaries_before_they_are_forgotten_and_nothing_afterwards():
    """Samples with random labels: a head with many units memorises them; forgotten, they are like others."""
    draw = np.random.default_rng(3)
    canaries, others = ((draw.normal(size=(150, 4)), draw.integers(3, size=150)) for _ in range(2))
    device, clean = (Cause(learner=learner(expand=512, regularization=1e-4)) for _ in range(2))
    device.learn({"ann": samples(100, 1), "canary": canaries})
    clean.learn({"ann": samples(100, 1)})

    def seen(audited: Cause) -> float:
        member, other = (
            loss_scores(audited.votes(x)[1][0] * 0.98 + 0.02 / 3, y) for x, y in (canaries, others)
        )  # probabilities of exactly 0 would tie
        return float(auc(np.concatenate([member, other]), np.arange(300) < 150))

    assert seen(device) > 0.75
    device.forget("canary")
    assert state_of(device) == state_of(clean)
    assert seen(device) == pytest.approx(seen(clean))
    assert abs(seen(device) - 0.5) < 0.12


def test_a_forget_costs_no_joules_of_training(tmp_path):
    model = EnergyModel("sums", "RAPL", Line(0.02, 0.5, 0.99, 0.001), Line(0.002, 0.0, 0.99, 0.0001))
    with Cause(tmp_path / "home", learner=learner()) as device:
        device.learn({"ann": samples(20, 1), "bob": samples(20, 2)})
        rsn = sum(each.rsn for each in device.forget("ann"))
        assert (rsn, model.joules(rsn), model.seconds(rsn)) == (0, 0.0, 0.0)
        repair = device.status(model).repair
    assert (repair.trainings, repair.joules, repair.seconds) == (0, 0.0, 0.0)
