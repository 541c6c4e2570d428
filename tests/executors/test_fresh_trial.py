"""The trial in fresh processes detects state wherever a user's code hides it."""

import pytest
from torch import nn

from cause.engine.presets import PRESETS
from cause.errors import LearnerError
from cause.executors import fresh_trial
from cause.executors.fresh_trial import try_out_afresh
from cause.learners.torch import TorchLearner
from cause.learners.trial import try_out
from tests.learners import stateful_networks as networks
from tests.quick import quick_only


def learner(make):
    own = TorchLearner(make, classes=3, shape=(6,), epochs=2, batch_size=2)
    return own.composed(PRESETS["frugal"])  # rounds to bf16, which hides small differences


@pytest.fixture(autouse=True)
def nothing_passed(monkeypatch):
    monkeypatch.setattr(fresh_trial, "_passed", set())
    yield
    if hasattr(nn.Linear, "first_batch"):
        delattr(nn.Linear, "first_batch")


@pytest.mark.parametrize(
    "make",
    [
        *quick_only(
            [
                networks.bound_method,
                networks.on_another_module,
                networks.predictions_reach_training,
                networks.replaced_by_each_first_training,
            ],
            [networks.predictions_reach_training],
        ),
        # from outside: forked processes would have one hash of a text
        pytest.param(networks.hash_of_text, marks=pytest.mark.fresh_processes),
    ],
)
def test_state_that_no_look_at_the_code_finds_is_refused(make):
    with pytest.raises(LearnerError, match=r"keeps something between|gave other weights or answers"):
        try_out_afresh(learner(make))


def test_a_network_that_keeps_nothing_passes_and_is_tried_once(monkeypatch):
    try_out_afresh(learner(networks.pure))
    monkeypatch.setattr(fresh_trial, "_results", None)  # another home for the same learner
    try_out_afresh(learner(networks.pure))


def test_what_cannot_be_sent_to_a_process_is_tried_here_alone(monkeypatch):
    monkeypatch.setattr(fresh_trial, "_results", None)
    try_out_afresh(learner(lambda classes, shape: networks.Pure(classes)))
    try_out_afresh(TorchLearner("mlp", classes=3, shape=(6,), epochs=1))  # no user's code


def test_a_process_that_dies_is_warned_of_and_refuses_nothing(monkeypatch):
    monkeypatch.setattr(fresh_trial, "_results", lambda sent, shape: [b"digest", "it ended with exit code -9"])
    with pytest.warns(UserWarning, match="could not be tried in a fresh process: it ended with exit code -9"):
        try_out_afresh(learner(networks.pure))


def test_the_trial_in_this_process_compares_before_rounding():
    """A difference of 1e-6 of the weights is the same number in bf16."""
    with pytest.raises(LearnerError, match="gave other weights after another training"):
        try_out(learner(networks.small_drift))
