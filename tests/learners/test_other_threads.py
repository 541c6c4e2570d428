"""What other threads of a program draw from the global generators changes no bit of a sub-model."""

import random
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.errors import PassingError
from cause.learners.torch import TorchLearner
from cause.learners.torch.private_draws import private_draws
from tests.quick import quick_only

SHAPE, CLASSES, SEED = (6,), 3, bytes(range(32))
X = torch.linspace(0.1, 0.9, 24).reshape(4, 6)


def dropout(classes, shape):
    return nn.Sequential(nn.Linear(shape[0], 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, classes))


def no_draws(classes, shape):
    return nn.Sequential(nn.Linear(shape[0], 16), nn.ReLU(), nn.Linear(16, classes))


def fixed_seed(classes, shape):
    torch.manual_seed(5)
    return dropout(classes, shape)


class NumpyNoise(nn.Module):
    def forward(self, x):
        return x + float(np.random.rand()) if self.training else x


class PythonNoise(nn.Module):
    def forward(self, x):
        return x + random.random() if self.training else x


def numpy_noise(classes, shape):
    return nn.Sequential(NumpyNoise(), no_draws(classes, shape))


def python_noise(classes, shape):
    return nn.Sequential(PythonNoise(), no_draws(classes, shape))


class AlwaysDrops(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 0.5, training=True)


def drops_in_predictions(classes, shape):
    return nn.Sequential(nn.Linear(shape[0], 16), AlwaysDrops(), nn.Linear(16, classes))


def lesson(count=40):
    draw = np.random.default_rng(1)
    x = draw.normal(size=(count, *SHAPE)).astype(np.float32)
    upload = ArrayUpload("ann", 1, x, draw.integers(CLASSES, size=count))
    return Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), count)


def learner(make):
    return TorchLearner(make, classes=CLASSES, shape=SHAPE, epochs=6, batch_size=8)


def trained(learner, tick=lambda done, total: None):
    return learner.encode(learner.train(None, lesson(), SEED, tick))


@contextmanager
def noise(draw):
    """A thread that draws all the time."""
    stop, began = threading.Event(), threading.Event()

    def run():
        while not stop.is_set():
            draw()
            began.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert began.wait(10)
        yield
    finally:
        stop.set()
        thread.join()


DRAWS = {
    "torch": lambda: torch.rand(3),
    "numpy": lambda: np.random.rand(3),
    "random": random.random,
    "seeds": lambda: torch.manual_seed(1),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("make", quick_only([dropout, no_draws, fixed_seed], [dropout]))
def test_another_thread_that_draws_changes_no_bit(make, draw):
    alone = trained(learner(make))
    with noise(DRAWS[draw]):
        beside = learner(make)
        assert [trained(beside) for _ in range(2)] == [alone, alone]


def test_a_thread_that_starts_in_the_middle_of_a_training_changes_no_bit():
    one = learner(dropout)
    alone, threads = trained(one), []

    def begin(done, total):
        if done == 2 and not threads:
            threads.append(noise(DRAWS["torch"]))
            threads[0].__enter__()

    try:
        assert trained(learner(dropout), begin) == alone
    finally:
        threads[0].__exit__(None, None, None)


@pytest.mark.parametrize(("make", "draw"), [(numpy_noise, "numpy"), (python_noise, "random")])
def test_a_network_that_draws_from_a_generator_which_others_use_is_refused(make, draw):
    one = learner(make)
    alone = trained(one)
    assert trained(one) == alone
    with noise(DRAWS[draw]), pytest.raises(PassingError, match=r"so does another thread .*workers=1"):
        [trained(learner(make)) for _ in range(5)]
    with noise(DRAWS["torch"]):  # others draw elsewhere
        assert trained(learner(make)) == alone


def test_predictions_beside_a_thread_that_draws_are_the_same():
    one = learner(drops_in_predictions)
    state = one.train(None, lesson(), SEED)
    x = np.random.default_rng(3).normal(size=(50, *SHAPE)).astype(np.float32)
    alone = one.predict(state, x)
    with noise(DRAWS["torch"]):
        for _ in range(20):
            assert np.array_equal(one.predict(state, x), alone)


def test_a_training_beside_others_leaves_the_global_generator_alone():
    one, seen = learner(dropout), []
    with noise(lambda: None):
        torch.manual_seed(3)
        before = torch.get_rng_state()
        one.train(
            None,
            lesson(),
            SEED,
            lambda done, total: seen.append(torch.equal(torch.default_generator.get_state(), before)),
        )
    assert seen
    assert all(seen)


OPERATIONS = {
    "rand": lambda: torch.rand(3, 2),
    "randn": lambda: torch.randn(5),
    "randint": lambda: torch.randint(9, (4,)),
    "randint with low": lambda: torch.randint(2, 9, (4,)),
    "randperm": lambda: torch.randperm(7),
    "rand_like": lambda: torch.rand_like(X),
    "randn_like": lambda: torch.randn_like(X),
    "randint_like": lambda: torch.randint_like(X, 5),
    "randint_like with low": lambda: torch.randint_like(X, 2, 5),
    "bernoulli": lambda: torch.bernoulli(X),
    "bernoulli_": lambda: torch.empty(3).bernoulli_(0.3),
    "multinomial": lambda: torch.multinomial(X, 2),
    "normal": lambda: torch.normal(X, 1.0),
    "poisson": lambda: torch.poisson(X * 5),
    "binomial": lambda: torch.binomial(torch.full((4, 6), 9.0), X),
    "exponential_": lambda: torch.empty(3).exponential_(),
    "dropout": lambda: functional.dropout(X, 0.5),
    "dropout2d": lambda: functional.dropout2d(X[None, :, :, None], 0.5),
    "alpha_dropout": lambda: functional.alpha_dropout(X, 0.5, training=True),
    "native_dropout": lambda: torch.native_dropout(X, 0.5, True)[0],
    "rrelu": lambda: functional.rrelu(X - 0.5, training=True),
    "gumbel": lambda: functional.gumbel_softmax(X),
    "attention": lambda: functional.scaled_dot_product_attention(X[None], X[None], X[None], dropout_p=0.4),
    "gamma": lambda: torch.distributions.Gamma(1.0, 1.0).sample((3,)),
    "dirichlet": lambda: torch.distributions.Dirichlet(torch.ones(3)).sample(),
    "lstm": lambda: nn.LSTM(6, 4, 2, dropout=0.5)(X[None])[0].detach(),
    "trunc_normal_": lambda: nn.init.trunc_normal_(torch.empty(5)),
    "orthogonal_": lambda: nn.init.orthogonal_(torch.empty(3, 3)),
    "pooling": lambda: functional.fractional_max_pool2d(X[None, None], 2, output_size=2),
    "its own seed": lambda: (torch.manual_seed(5), torch.rand(3))[1],
    "the global generator, named": lambda: torch.rand(3, generator=torch.default_generator),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_private_draws_are_those_of_the_global_generator_and_leave_it_alone(operation):
    call = OPERATIONS[operation]
    torch.manual_seed(11)
    expected = call(), torch.rand(1)
    torch.manual_seed(99)
    before = torch.default_generator.get_state()
    with private_draws() as draws:
        draws.generator.manual_seed(11)
        got = call(), torch.rand(1)
    assert all(map(torch.equal, got, expected))
    assert torch.equal(torch.default_generator.get_state(), before)
    assert draws.draws >= 2
    assert vars(torch.random)["default_generator"] is torch.default_generator
