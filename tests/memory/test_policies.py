"""What is particular to each policy: the golden facts."""

from collections import Counter
from itertools import pairwise

import pytest

from cause.errors import BudgetError, PolicyError
from cause.memory import POLICIES, Memory, Policy, PolicySetting, SubModel
from cause.memory.fibor import FiboR
from cause.samples import SegmentKey


def memory(name, slots, between=lambda s, a, b: b.round - (a.round if a else 0)):
    policy = POLICIES[name](PolicySetting(slots, b"key"))
    return Memory(policy, slots=slots, budget_bytes=slots, samples_between=between)


def admit(store, *keys):
    return [store.admit(SubModel(SegmentKey(*key), bytes(32), 1), b"") for key in keys]


def rounds(store, shard=0):
    return [key.round for key in store.stored_of(shard)]


def test_fibor_leaves_the_papers_eight_sub_models():
    store = memory("fibor", 8)
    admit(store, *((0, t) for t in range(1, 15)))
    assert rounds(store) == [3, 5, 6, 8, 9, 10, 12, 14]


def test_fibor_with_ten_slots_repeats_every_60_replacements():
    policy = FiboR(PolicySetting(10, b""))
    cycle = [policy.jump() for _ in range(60)]
    assert [policy.jump() for _ in range(60)] == cycle
    assert not any(cycle == cycle[:n] * (60 // n) for n in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30))
    assert Counter(slot + 1 for slot in cycle) == {slot: 4 if slot % 2 else 8 for slot in range(1, 11)}


def test_fibor_is_not_moved_by_free_slots():
    store = memory("fibor", 4)
    admit(store, *((0, t) for t in range(1, 5)))
    before = store.policy.state()
    store.drop_from(SegmentKey(0, 3))
    admit(store, (0, 3), (0, 4))
    assert store.policy.state() == before


def test_fibor_jumps_on_from_a_pinned_slot():
    store = memory("fibor", 4)
    admit(store, (1, 1), (0, 1), (0, 2), (0, 3))  # slot 1 holds the head of shard 1
    assert admit(store, (0, 4)) == [[(0, 1, 0)]]  # f = 0: slot 1, pinned; f = 1: slot 2
    assert store.policy.state()["jumps"] == 2
    assert admit(store, (0, 5)) == [[(0, 3, 0)]]  # f = 2: from slot 2 to slot 4


def test_fibor_walks_after_as_many_jumps_in_vain_as_there_are_slots():
    store = memory("fibor", 2)
    admit(store, (1, 1), (0, 1))
    for t in range(2, 40):
        admit(store, (0, t))
        assert store.stored() == [(0, t, 0), (1, 1, 0)]
    # Modulo 2 the jumps are 0 1 0 1 1 0 1 1 0 …: three slots make runs of two vain jumps onto slot 1 possible.
    store = memory("fibor", 5)
    admit(store, (1, 1), (2, 1), (3, 1), (4, 1), (0, 1))
    for t in range(2, 60):
        admit(store, (0, t))
        assert store.head(0).key == (0, t, 0)
        assert len(store) == 5


def test_fifo_keeps_the_newest_and_skips_heads():
    store = memory("fifo", 4)
    admit(store, (1, 1), *((0, t) for t in range(1, 6)))
    assert rounds(store) == [3, 4, 5]
    assert rounds(store, 1) == [1]


def test_static_keeps_the_oldest_and_the_head():
    store = memory("static", 4)
    admit(store, *((0, t) for t in range(1, 8)))
    assert rounds(store) == [1, 2, 3, 7]


def test_static_without_own_takes_the_newest_that_is_no_head():
    store = memory("static", 4)
    admit(store, (0, 1), (0, 2), (1, 2), (1, 3))
    assert admit(store, (2, 4)) == [[(1, 2, 0)]]
    store = memory("static", 4)
    admit(store, (0, 1), (0, 2), (1, 1), (1, 2))
    assert admit(store, (2, 4)) == [[(1, 1, 0)]]  # same round: the higher shard


def test_latest_keeps_one_a_shard_even_with_room():
    store = memory("latest", 10)
    admit(store, (0, 1), (1, 1), (0, 2), (1, 2), (0, 3))
    assert store.stored() == [(0, 3, 0), (1, 2, 0)]
    assert [store.slot_of(key) for key in store.stored()] == [0, 1]


def test_cost_evicts_the_least_product():
    samples = {1: 10, 2: 1, 3: 10, 4: 10, 5: 10}
    store = memory(
        "cost", 4, between=lambda s, a, b: sum(samples[t] for t in range((a.round if a else 0) + 1, b.round + 1))
    )
    admit(store, (0, 1), (0, 2), (0, 3), (0, 4))
    # W·N of 1: 1·10, of 2: 10·1 (tie, the lower goes), of 3: 10·10, of 4: 10·10
    assert admit(store, (0, 5)) == [[(0, 1, 0)]]


def test_cost_spreads_what_it_keeps():
    store = memory("cost", 8)
    admit(store, *((0, t) for t in range(1, 65)))
    kept = [0, *rounds(store)]
    gaps = [b - a for a, b in pairwise(kept)]
    assert max(gaps) <= 16


def test_random_differs_by_key_and_names_everybody_in_time():
    gone = {}
    for key in (b"one", b"two"):
        store = Memory(POLICIES["random"](PolicySetting(4, key)), slots=4, budget_bytes=4, samples_between=lambda *_: 1)
        admit(store, (0, 1), (0, 2), (0, 3), (0, 4))
        slots = []
        for t in range(5, 60):
            victim = admit(store, (0, t))[0][0]
            slots.append(victim.round)
        gone[key] = slots
    assert gone[b"one"] != gone[b"two"]


def test_the_lowest_free_slot_is_taken_first():
    store = memory("fifo", 5)
    admit(store, (0, 1), (1, 1), (0, 2), (0, 3))
    store.drop_from(SegmentKey(0, 1))
    admit(store, (0, 1))
    assert store.slot_of(SegmentKey(0, 1)) == 0
    admit(store, (0, 2))
    assert store.slot_of(SegmentKey(0, 2)) == 2


def test_a_newcomer_that_fits_nowhere_is_refused_and_nothing_is_stored():
    store = Memory(POLICIES["fifo"](PolicySetting(3, b"")), slots=3, budget_bytes=30, samples_between=lambda *_: 1)
    store.admit(SubModel(SegmentKey(0, 1), bytes(32), 25), b"")
    with pytest.raises(BudgetError, match="does not fit beside the other shards' heads"):
        store.admit(SubModel(SegmentKey(1, 1), bytes(32), 10), b"")
    assert store.stored() == [(0, 1, 0)]


def test_a_policy_that_names_a_head_is_caught():
    class Wrong(Policy):
        def victim(self, newcomer, memory):
            return 0

    store = Memory(Wrong(PolicySetting(2, b"")), slots=2, budget_bytes=2, samples_between=lambda *_: 1)
    admit(store, (0, 1), (1, 1))
    with pytest.raises(PolicyError, match="slot 1"):
        admit(store, (1, 2))


def test_dropped_bytes_are_destroyed():
    store = memory("fifo", 3)
    admit(store, (0, 1), (0, 2))
    store.drop_from(SegmentKey(0, 2))
    with pytest.raises(KeyError):
        store.shelf.get(SegmentKey(0, 2))
