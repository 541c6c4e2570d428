"""What a factory may not do: hand out the same network again, or weights that the seed does not decide."""

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cause.errors import LearnerError
from cause.learners.torch import TorchLearner
from tests.learners.test_torch import lesson, upload

CLASSES, SHAPE = 4, (1, 8, 8)


def learner(make, **parts) -> TorchLearner:
    return TorchLearner(make, classes=CLASSES, shape=SHAPE, epochs=1, **parts)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def test_a_factory_that_returns_the_same_network_is_refused():
    same = network()
    with pytest.raises(LearnerError, match="returns the same network again when it is called a second time"):
        learner(lambda classes, shape: same)


def test_a_shared_layer_is_refused_and_named():
    shared = nn.Linear(64, 8)
    with pytest.raises(LearnerError, match="the same layer '1'"):
        learner(lambda classes, shape: nn.Sequential(nn.Flatten(), shared, nn.Linear(8, classes)))


def test_a_shared_parameter_is_refused_and_named():
    weights = torch.zeros(8, 64)

    def make(classes, shape):
        made: Any = network()
        made[1].weight = nn.Parameter(weights)  # another parameter over the same numbers
        return made

    with pytest.raises(LearnerError, match=r"the same parameter '1\.weight'"):
        learner(make)


def test_a_shared_buffer_is_refused_and_named():
    means = torch.zeros(8)

    def make(classes, shape):
        made: Any = network()
        made[1].register_buffer("means", means)
        return made

    with pytest.raises(LearnerError, match=r"the same buffer '1\.means'"):
        learner(make)


def test_tied_weights_within_a_network_are_its_own_affair():
    def make(classes, shape):
        made = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, classes))
        made[2].weight = made[1].weight
        return made

    learner(make).train(None, lesson(upload()), b"s" * 32)


GENERATORS: dict[str, Any] = {
    "torch": torch.Generator().manual_seed(1),
    "numpy": np.random.default_rng(1),
    "random": random.Random(1),
    "count": itertools.count(),
}


@pytest.mark.parametrize("kind", GENERATORS)
def test_weights_that_the_seed_does_not_decide_are_refused(kind):
    own = GENERATORS[kind]

    def make(classes, shape):
        made: Any = network()
        draws = {
            "torch": lambda: torch.rand(1, generator=own).item(),
            "numpy": lambda: float(own.random()),
            "random": lambda: own.random(),
            "count": lambda: float(next(own)),
        }
        nn.init.constant_(made[1].weight, draws[kind]())
        return made

    with pytest.raises(
        LearnerError, match=r"makes other weights \('1\.weight'\) at its second call with the same seed"
    ):
        learner(make)


def test_the_global_generators_may_be_drawn_from():
    def make(classes, shape):
        made: Any = network()
        nn.init.constant_(made[1].weight, float(np.random.random()) + random.random() + torch.rand(1).item())
        return made

    one, other = (learner(make).train(None, lesson(upload()), b"s" * 32) for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_lazy_layer_is_refused_with_the_way_out():
    with pytest.raises(LearnerError, match="layer '1' is a LazyLinear, whose size would follow from the first data"):
        learner(lambda classes, shape: nn.Sequential(nn.Flatten(), nn.LazyLinear(classes)))


def test_what_is_no_module_is_refused():
    with pytest.raises(LearnerError, match=r"returns a int, not a torch\.nn\.Module"):
        learner(lambda classes, shape: 7)
