"""What a training does not do, for time and memory, changes none of its bits."""

from typing import Any

import pytest
import torch

from cause.learners.torch import TorchLearner, seed_all
from cause.learners.torch.pruning.iterative import IterativePruner
from tests.exactness.networks import densenet, mobilenet
from tests.exactness.test_rules import upload
from tests.learners.test_torch import lesson


def test_seeding_is_that_of_torch():
    with torch.random.fork_rng(devices=[]):
        seed_all(b"s" * 32)
        ours = torch.rand(4)
        torch.manual_seed(int.from_bytes(b"s" * 8, "big") % 2**63)
        assert torch.equal(ours, torch.rand(4))


@pytest.mark.skipif(torch.accelerator.is_available(), reason="with an accelerator its generator is seeded too")
def test_nothing_is_queued_for_accelerators_that_are_not_there():
    before = len(torch.cuda._queued_calls)
    seed_all(b"s" * 32)
    assert len(torch.cuda._queued_calls) == before


@pytest.mark.parametrize("model", [densenet, mobilenet])
def test_steps_that_would_remove_nothing_are_left_out(model, monkeypatch):
    recipe: dict[str, Any] = {
        "classes": 4,
        "shape": (1, 4, 4),
        "epochs": 3,
        "pruning": "iterative",
        "steps": 2,
        "round_to": 1,
    }
    learner = TorchLearner(model, **recipe)
    answers = []
    honest = IterativePruner._removes_something

    def counted(self, step):
        answers.append(honest(self, step))
        return answers[-1]

    monkeypatch.setattr(IterativePruner, "_removes_something", counted)
    quick = learner.encode(learner.train(None, lesson(upload()), b"s" * 32))
    assert False in answers
    monkeypatch.setattr(IterativePruner, "_removes_something", lambda self, step: True)
    assert learner.encode(learner.train(None, lesson(upload()), b"s" * 32)) == quick
