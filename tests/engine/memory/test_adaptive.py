"""The policy that learns: what it counts, what it evicts, and what it keeps."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.engine.memory import Memory, PolicySetting, SubModel
from cause.engine.memory.adaptive import Adaptive
from cause.engine.memory.ages import RequestAges, age_range, first_age
from cause.engine.memory.cost import Cost
from cause.engine.samples import SegmentKey
from tests.engine.memory.counts import Counted


def learned(factor, requests=2000, rounds=10):
    """The ages of requests P(age a) ∝ factor^a in each of ten rounds."""
    ages, draw = RequestAges(), np.random.default_rng(1)
    for now in range(1, rounds + 1):
        shares = float(factor) ** np.arange(now)
        for age in draw.choice(now, size=requests // rounds, p=shares / shares.sum()):
            ages.add(int(age), now - 1)
    return ages


@pytest.mark.parametrize("factor", [0.2, 0.5, 0.8, 1.0])
def test_the_factor_of_recent_requests_is_found(factor):
    weights = learned(factor).weights(10)
    expected = factor ** np.arange(10)
    likely = expected / expected.sum() > 0.02
    assert (weights / weights.sum())[likely] == pytest.approx((expected / expected.sum())[likely], rel=0.25)


def test_requests_for_one_odd_age_are_found():
    ages = RequestAges()
    for _ in range(200):
        ages.add(age=5, oldest=9)
    weights = ages.weights(10)
    assert int(np.argmax(weights)) == 5
    assert weights[5] > 5 * np.delete(weights, 5).max()


def test_before_the_first_request_no_age_is_ruled_out():
    weights = RequestAges().weights(50)
    assert weights.min() > 0
    assert all(np.diff(weights) <= 0)


def test_ranges_of_ages_follow_each_other():
    numbers = [age_range(age) for age in range(5000)]
    assert [b - a for a, b in pairwise(numbers)] == [int(first_age(numbers[age] + 1) == age + 1) for age in range(4999)]


def test_counts_are_few_whatever_the_age():
    ages = RequestAges()
    for age in range(0, 1_000_000, 997):
        ages.add(age, 1_000_000)
    assert len(ages.state()) < 100


def store_of(policy, samples, slots):
    counts = Counted(samples)
    counts.round = max(round_ for _, round_ in samples)
    return Memory(policy(PolicySetting(slots, b"")), slots=slots, budget_bytes=slots, counts=counts)


def admit(store, *keys):
    return [store.admit(SubModel(SegmentKey(*key), bytes(32), 1), b"") for key in keys]


def test_recent_requests_keep_the_newest_and_old_ones_the_oldest():
    kept = {}
    for age in (0, 7):
        samples = {(0, round_): 10 for round_ in range(1, 9)}
        store = store_of(Adaptive, samples, 3)
        for _ in range(100):
            store.policy.ages.add(age, 7)
        for round_ in range(1, 9):
            store.counts.round = round_
            admit(store, (0, round_))
        kept[age] = [key.round for key in store.stored()]
    assert kept[0][-2:] == [7, 8]
    assert 1 in kept[7] or 2 in kept[7]


def test_a_frozen_shard_grows_old_and_gives_its_slots_up():
    """Ages are of the device's rounds: shard 1 got nothing since round 3."""
    samples = {(0, round_): 10 for round_ in range(1, 9)} | {(1, round_): 10 for round_ in range(1, 4)}
    store = store_of(Adaptive, samples, 6)
    for _ in range(100):
        store.policy.ages.add(0, 7)
    for round_ in range(1, 9):
        store.counts.round = round_
        admit(store, *((shard, round_) for shard in (0, 1) if (shard, round_) in samples))
    assert [key.round for key in store.stored_of(1)] == [3]
    assert len(store.stored_of(0)) == 5


def expected_replay(sizes, weights, kept):
    """The samples that a request replays before the segment that it touches, times how likely it is."""
    total = 0.0
    for index, size in enumerate(sizes):
        restart = max((k for k in kept if k < index), default=-1)
        total += size * weights[index] * sum(sizes[restart + 1 : index])
    return total


@given(sizes=st.lists(st.integers(1, 30), min_size=4, max_size=7), factor=st.sampled_from([0.2, 0.6, 1.0]))
def test_the_victim_is_the_one_whose_loss_costs_least(sizes, factor):
    """Against a naive recount of one shard, in the last round, when no replay goes on."""
    rounds = len(sizes)
    store = store_of(Adaptive, {(0, t): size for t, size in enumerate(sizes, start=1)}, rounds - 1)
    store.policy.ages = learned(factor, requests=200, rounds=rounds)
    weights = store.policy.ages.weights(rounds)[::-1]
    admit(store, *((0, t) for t in range(1, rounds)))
    ((victim,),) = admit(store, (0, rounds))
    costs = {t: expected_replay(sizes, weights, [k for k in range(rounds) if k != t - 1]) for t in range(1, rounds)}
    assert costs[victim.round] == pytest.approx(min(costs.values()))


def test_a_replay_keeps_room_for_what_it_will_still_make():
    """With two slots, a replay of equal segments ends with a sub-model in the middle, not at the beginning."""
    samples = {(0, round_): 10 for round_ in range(1, 11)}
    ends = {}
    for policy in (Adaptive, Cost):
        store = store_of(policy, samples, 2)
        if policy is Adaptive:
            store.policy.ages = learned(1.0)
        admit(store, *((0, round_) for round_ in range(1, 11)))
        weights = [1.0] * 10
        ends[policy] = expected_replay([10] * 10, weights, [key.round - 1 for key in store.stored()])
    best = min(expected_replay([10] * 10, [1.0] * 10, [k, 9]) for k in range(9))
    assert best <= ends[Adaptive] <= 1.1 * best
    assert ends[Adaptive] < ends[Cost]


def test_what_is_learned_is_counts_by_age_and_nothing_else():
    store = store_of(Adaptive, dict.fromkeys(product(range(3), range(1, 9)), 5), 9)
    store.policy.requested([SegmentKey(0, 8), SegmentKey(2, 5)], store)
    assert store.policy.state() == {"named_0": 1, "named_3": 1, "oldest_7": 2}
    assert Adaptive.without_requests(store.policy.state()) == {}
    assert Cost.without_requests({"at": 3}) == {"at": 3}


def test_a_deletion_discards_every_score():
    store = store_of(Adaptive, {(0, round_): round_ for round_ in range(1, 9)}, 3)
    admit(store, *((0, round_) for round_ in range(1, 9)))
    assert store.policy._scores
    store.drop_from(SegmentKey(0, 7))
    assert not store.policy._scores
    assert not store.policy._heap
    assert not store.policy._sums
