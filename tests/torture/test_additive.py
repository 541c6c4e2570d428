"""Kills and power losses over a device with an additive learner: the state is added up again, to the bit."""

import pytest

from cause.device.store.shelf import HomeShelf
from cause.engine.adding import Adding
from cause.engine.requests import Request
from tests.torture.calls import Case, Forget, Learn, Reopen, additive_case
from tests.torture.kills import spread, torture
from tests.torture.power_loss import power_losses
from tests.torture.test_kills import ANN, BOB, EVE, moments_of, wrong

ADDING = Case(
    (
        Learn(1, ((ANN, 4), (BOB, 60))),
        Forget((Request(ANN, rounds=(1,), count=1),), "later"),
        Learn(2, ((EVE, 2),)),
        Reopen(),
        Learn(3, ((ANN, 2),)),
        Forget((Request(EVE), Request(BOB, rounds=(1,), count=3))),
        Forget((Request(ANN, rounds=(3,)),), "later"),
    ),
    "additive",
    shards=1,
    slots=2,
    learner="additive",
)


def test_a_kill_at_any_moment_does_no_harm(deep):
    with torture(ADDING) as tortured:
        every = moments_of(tortured, 1 if deep else 113)
        outcomes = spread(lambda at: tortured.kill(*at, thorough=at[1] % 10 == 0), every)
    assert wrong(outcomes) == []
    assert all(outcome.killed for outcome in outcomes)
    assert len(outcomes) > 5


@pytest.mark.parametrize(
    "case", [pytest.param(ADDING, id="adding"), pytest.param(additive_case(3), id="random", marks=pytest.mark.long)]
)
def test_a_power_loss_at_any_write_does_no_harm(case, deep):
    with torture(case) as tortured:
        losses = power_losses(tortured, most=400 if deep else 5)
    assert losses.problems == ()
    assert losses.states >= 5


def states_stay_in_the_ledger():
    HomeShelf.to_delete = lambda self: []


def nothing_is_subtracted():
    Adding._subtract = lambda self, selection: None


@pytest.mark.parametrize("sabotage", [states_stay_in_the_ledger, nothing_is_subtracted])
def test_red_when_it_is_broken(sabotage):
    with torture(ADDING, sabotage, lasting=True) as tortured:
        assert any(tortured.kill(5, moment).problems for moment in range(20, tortured.moments[5], 10))
