"""Killed, opened again, and then the power goes: nothing is lost, and nothing comes back."""

import pytest

from tests.torture.calls import random_case
from tests.torture.kills import torture
from tests.torture.reopening import killed_at_syncs, reopenings
from tests.torture.test_kills import EVICTING, SHORT


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(SHORT, id="short", marks=pytest.mark.long),
        pytest.param(EVICTING, id="evicting", marks=pytest.mark.long),
        pytest.param(random_case(3), id="random"),
    ],
)
def test_a_power_loss_after_a_kill_and_an_opening_does_no_harm(case, deep):
    with torture(case) as tortured:
        losses = reopenings(tortured, most=200 if deep else 16)
    assert losses.problems == ()
    assert losses.states > 15


def test_an_erasure_that_was_killed_is_safe_once_the_home_was_opened_again(deep):
    with torture(SHORT) as tortured:
        losses = killed_at_syncs(tortured, 1, cuts=20 if deep else 2)
    assert losses.problems == ()
    assert losses.states > 15
