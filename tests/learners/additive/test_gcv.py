"""λ by generalised cross-validation: a function of the state alone."""

from typing import Any

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.errors import InputError
from cause.learners.additive.gcv import SHARES, share_by_gcv
from tests.learners.additive.test_learner import learner, samples


def sums(n: int, features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with a constant 1 at the end, one-hot labels that follow from some features, and nothing else."""
    draw = np.random.default_rng(seed)
    x = draw.integers(0, 256, size=(n, features)).astype(float)
    y = (x[:, :3].sum(axis=1) + draw.normal(scale=60, size=n) > 380).astype(int)
    z = np.concatenate([x, np.ones((n, 1))], axis=1)
    labels = np.eye(2)[y]
    return z, labels, z.T @ labels


def score(z: np.ndarray, labels: np.ndarray, share: float) -> float:
    """The definition: the mean squared error over (1 - trace of the hat matrix / n)²."""
    n, width = len(z), z.shape[1] - 1
    penalty = np.zeros((width + 1, width + 1))
    penalty[np.arange(width), np.arange(width)] = share * (z[:, :-1] ** 2).sum() / n
    hat = z @ np.linalg.solve(z.T @ z + penalty, z.T)
    return float(((labels - hat @ labels) ** 2).sum() / n / (1 - np.trace(hat) / n) ** 2)


@pytest.mark.parametrize(("n", "features"), [(40, 8), (200, 8), (60, 50), (50, 90)])
def test_the_share_is_that_of_the_definition(n: int, features: int):
    z, labels, cross = sums(n, features)
    scores = {share: score(z, labels, share) for share in SHARES}
    chosen = share_by_gcv(z.T @ z, cross, n)
    assert scores[chosen] == pytest.approx(min(scores.values()), rel=1e-9)
    assert scores[chosen] < 0.99 * max(scores.values())  # it matters which


def test_only_some_entries_are_looked_at():
    z, _, cross = sums(300, 60)
    some = [*range(20), 60]
    assert share_by_gcv(z.T @ z, cross, 300, most=20) == share_by_gcv(z[:, some].T @ z[:, some], cross[some], 300)


def test_more_noise_chooses_a_larger_share():
    draw = np.random.default_rng(0)
    z, _, cross = sums(200, 30)
    noise = np.eye(2)[draw.integers(2, size=200)]
    assert share_by_gcv(z.T @ z, z.T @ noise, 200) > share_by_gcv(z.T @ z, cross, 200)


def test_a_forget_leaves_the_lambda_and_the_solution_of_a_device_without_the_samples():
    device, clean = (Cause(learner=learner(expand=200)) for _ in range(2))
    x, y = samples(120, 1)
    device.learn({"ann": samples(60), "bob": (x, y)})
    device.learn({"cid": (samples(300, 2)[0], np.zeros(300, dtype=int))})  # all of one class: another λ
    before = device.votes(x)[1]
    device.forget("ann")
    device.forget("cid")
    clean.learn({"bob": (x, y)})
    assert device.votes(x)[1].tobytes() == clean.votes(x)[1].tobytes()
    assert device.votes(x)[1].tobytes() != before.tobytes()


def test_the_rule_is_the_default_of_a_random_layer_alone():
    def setting(**arguments: Any) -> float | str:
        return learner(**arguments).head.setting.regularization

    assert setting() == setting(expand=50, solve="portable") == setting(expand=50, head="gaussian-nb") == 0.1
    assert setting(expand=50) == setting(regularization="gcv") == "gcv"
    assert setting(expand=50, regularization=0.3) == 0.3


@pytest.mark.parametrize(
    "arguments", [{"solve": "portable"}, {"head": "class-means"}, {"head": "multinomial-nb", "expand": 5}]
)
def test_the_rule_is_refused_where_it_cannot_be_applied(arguments: dict):
    with pytest.raises(InputError, match="ridge solved by lapack"):
        learner(regularization="gcv", **arguments)


def test_digits_are_read_better_than_with_a_constant():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order], y[order]

    def accuracy(**arguments: Any) -> float:
        made = AdditiveLearner(features=64, scale=(0, 16), classes=10, expand=512, **arguments)
        device = Cause(learner=made)
        device.learn({"ann": (x[:1000], y[:1000])})
        return float((device.predict(x[1000:]) == y[1000:]).mean())

    assert accuracy() > accuracy(regularization=0.1) + 0.005  # 0.1 was the constant of a random layer
