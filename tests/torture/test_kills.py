"""A device that is killed at any moment of a trace loses nothing, and nothing that was forgotten comes back."""

from itertools import chain

import pytest

from cause.device.home.home import Home
from cause.device.store import seals
from cause.device.store.blocks import Files
from cause.device.store.inbox import Inbox
from cause.device.store.shelf import HomeShelf
from cause.device.vault import Vault
from cause.engine.requests import Request
from tests.torture.calls import Case, Forget, Learn, Repair, Stage, random_case
from tests.torture.kills import random_kills, spread, torture

ANN, BOB, EVE = "ann of aachen", "bob of berlin", "eve of exeter"
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
STAGED = Case(
    (
        Stage(1, ANN, 3),
        Stage(1, BOB, 150),
        Forget((Request(ANN),)),
        Learn(1, ((EVE, 2),), staged=True),
        Stage(2, BOB, 2),
        Forget((Request(BOB),), "later"),
        Learn(2, (), staged=True),
    ),
    "frugal",
    shards=1,
    slots=2,
)


def bare(key, plain, aad):
    return plain


def wrong(outcomes):
    return [f"{outcome.where}: {problem}" for outcome in outcomes for problem in outcome.problems]


def moments_of(tortured, step):
    """Some of the moments of each call, others in each."""
    every = enumerate(tortured.moments)
    return [(call, moment) for call, moments in every for moment in range(1 + call % step, moments + 1, step)]


def test_a_kill_at_any_moment_of_a_trace_does_no_harm(deep):
    with torture(SHORT) as tortured:
        every = moments_of(tortured, 1 if deep else 43)
        outcomes = spread(lambda at: tortured.kill(*at, thorough=at[1] % 10 == 0), every)
    assert wrong(outcomes) == []
    assert all(outcome.killed for outcome in outcomes)
    assert len(outcomes) > 10


def test_a_kill_at_any_moment_neither_loses_nor_doubles_what_waits_for_its_round(deep):
    with torture(STAGED) as tortured:
        every = moments_of(tortured, 1 if deep else 131)
        outcomes = spread(lambda at: tortured.kill(*at, thorough=at[1] % 10 == 0), every)
    assert wrong(outcomes) == []
    assert len(outcomes) > 6


def test_kills_at_random_moments_of_random_traces_do_no_harm(thorough):
    kills, traces = (6, 4) if thorough else (2, 1)
    outcomes = spread(lambda seed: random_kills(random_case(seed), seed, kills), range(traces))
    assert wrong(outcomes) == []
    assert sum(outcome.killed for outcome in outcomes) >= (traces - 1) * kills
    assert any(outcome.killed for outcome in outcomes)


@pytest.mark.long
def test_a_network_survives_kills_too(thorough):
    assert wrong(random_kills(random_case(1, "mlp"), 1, 4 if thorough else 2)) == []


def keys_are_not_destroyed():
    Vault.erase = lambda self, names: frozenset()


def files_are_not_removed():
    Files.remove = lambda self, names: None


def answered_before_it_is_durable():
    accept, effect = Home.accept, Home.effect

    def hasty(self, requests, ids=None):
        self.promised = requests
        return ["00" * 16 for _ in requests]

    def late(self, ids, *rest):
        effect(self, accept(self, self.promised), *rest)

    Home.accept, Home.effect = hasty, late


def staged_keys_are_kept():
    Inbox._delete_rows = Inbox._after_deletion_committed = lambda self, uploads: None


def staged_stays_when_it_is_learned():
    Inbox.delete_taken_in = lambda self, intake, round_, now, uploads: None
    Inbox.after_round_committed = lambda self, intake: []


@pytest.mark.parametrize(
    ("sabotage", "call", "seen"),
    [(staged_keys_are_kept, 2, "cannot be"), (staged_stays_when_it_is_learned, 3, "too many")],
)
def test_an_inbox_that_does_not_keep_its_promises_is_caught(sabotage, call, seen):
    with torture(STAGED, sabotage, lasting=False) as tortured:
        outcomes = [tortured.kill(call, tortured.moments[call] - back) for back in (0, 1, 2, 10)]
    assert any(seen in problem for problem in wrong(outcomes)), wrong(outcomes)


def dropped_in_memory_only():
    HomeShelf.to_delete = lambda self: []


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
        moments = range(1, tortured.moments[last] + 30, every)
        both_ends = dict.fromkeys(chain.from_iterable(zip(moments, reversed(moments), strict=True)))
        outcomes = (tortured.kill(last, moment) for moment in both_ends)
        assert any(seen in problem for outcome in outcomes for problem in outcome.problems)


@pytest.mark.parametrize("instead", [{"seal": bare, "open_sealed": bare}])
def test_digests_that_old_copies_of_the_ledger_would_give_away_are_found(instead, monkeypatch):
    for name, broken in instead.items():
        monkeypatch.setattr(seals, name, broken)
    readable = False
    for row in range(290, 298):  # one of those that do not lie in the first block
        case = Case((Learn(1, ((ANN, 300),)), Forget((Request(ANN, samples=((1, row),)),), "later")), "frugal", 1, 2)
        with torture(case) as tortured:
            outcome = tortured.kill(1, tortured.moments[1], thorough=True)
        readable = readable or f"a digest of what {(ANN, 1, row)} was part of can be read" in outcome.problems
        if readable:
            break
    assert readable
