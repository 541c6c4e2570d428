"""Killed at every moment of a trace and at random moments of random ones, a device loses nothing and gives nothing."""

import pytest

from cause.home import Home
from cause.home.blocks import Files
from cause.home.shelf import HomeShelf
from cause.requests import Request
from cause.vault import Vault
from tests.torture.calls import Case, Forget, Learn, Repair, random_case
from tests.torture.kills import random_kill, torture

ANN, BOB = "ann of aachen", "bob of berlin"
SHORT = Case(
    (
        Learn(1, ((ANN, 4), (BOB, 3))),
        Forget((Request(ANN, rounds=(1,), count=1), Request(BOB)), "later"),
        Repair(),
    ),
    "frugal",
    shards=1,
    slots=2,
)
EVICTING = Case(
    (
        Learn(1, ((ANN, 4),)),
        Learn(2, ((BOB, 3),)),
        Learn(3, ((ANN, 2),)),
        Forget((Request(ANN, samples=((1, 2),)),)),
    ),
    "cause-no-sc",
    shards=1,
    slots=2,
)


def wrong(outcomes):
    return [f"{outcome.where}: {problem}" for outcome in outcomes for problem in outcome.problems]


def test_a_kill_at_every_moment_of_a_trace_does_no_harm():
    with torture(SHORT) as tortured:
        outcomes = [
            tortured.kill(call, moment, thorough=moment % 10 == 0)
            for call, moments in enumerate(tortured.moments)
            for moment in range(1, moments + 1)
        ]
    assert wrong(outcomes) == []
    assert all(outcome.killed for outcome in outcomes)
    assert len(outcomes) > 120


@pytest.mark.parametrize("seed", range(12))
def test_a_kill_at_a_random_moment_of_a_random_trace_does_no_harm(seed):
    with torture(random_case(seed)) as tortured:
        assert wrong(random_kill(tortured, seed, number) for number in range(6)) == []


def test_a_network_survives_kills_too():
    with torture(random_case(1, "mlp")) as tortured:
        assert wrong(random_kill(tortured, number) for number in range(4)) == []


def keys_are_not_destroyed():
    Vault.erase = lambda self, names: frozenset()


def files_are_not_removed():
    Files.remove = lambda self, names: None


def answered_before_it_is_durable():
    telling, effect = Home.accept, Home.effect

    def hasty(self, requests):
        self.promised = requests
        return ["00" * 16 for _ in requests]

    def late(self, ids, *rest):
        effect(self, telling(self, self.promised), *rest)

    Home.accept, Home.effect = hasty, late


def dropped_in_memory_only():
    HomeShelf.destroy = lambda self, key: self.names.pop(key)


@pytest.mark.parametrize(
    ("sabotage", "lasting", "seen"),
    [
        (keys_are_not_destroyed, False, "can be read"),
        (files_are_not_removed, True, "holds other files"),
        (answered_before_it_is_durable, False, "too many"),
        (dropped_in_memory_only, False, "opens to a sub-model that saw"),
    ],
)
def test_a_device_that_does_not_keep_its_promises_is_caught(sabotage, lasting, seen):
    with torture(EVICTING, sabotage, lasting=lasting) as tortured:
        last = len(EVICTING.calls) - 1
        every = max(1, tortured.moments[last] // 12)
        outcomes = [tortured.kill(last, moment) for moment in range(1, tortured.moments[last] + 30, every)]
    assert any(seen in problem for problem in wrong(outcomes))
