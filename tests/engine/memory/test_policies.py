"""What is particular to each policy: the golden facts."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.engine.memory import POLICIES, Memory, MemoryShelf, Policy, PolicySetting, SubModel
from cause.engine.memory.fibor import FiboR
from cause.engine.samples import SegmentKey
from cause.errors import BudgetError, PolicyError
from tests.engine.memory.counts import Between


def memory(name, slots, between=lambda s, a, b: b.round - (a.round if a else 0)):
    policy = POLICIES[name](PolicySetting(slots, b"key"))
    budget_bytes = slots + 4 * policy.heads_apart
    return Memory(policy, slots=slots, budget_bytes=budget_bytes, counts=Between(between))


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


@given(
    slots=st.integers(1, 12),
    pinned_sets=st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=40),
)
def test_fibor_jumps_walks_and_stays_as_its_rules_say(slots, pinned_sets):
    """The rules once more, in the plainest words: jump N times at most, then walk on by one until nobody is pinned."""
    fibonacci = [0, 1, 2]
    while len(fibonacci) < 600:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    policy, at, jumps = FiboR(PolicySetting(slots, b"")), 0, 0
    for pinned in pinned_sets:
        free = [slot for slot in range(slots) if slot not in pinned] or [slots - 1]

        class View:
            def evictable(self, slot, newcomer, free=free):
                return slot in free

        for _ in range(slots):
            at = (at + fibonacci[jumps]) % slots
            jumps += 1
            if at in free:
                break
        else:
            while True:
                at = (at + 1) % slots
                if at in free:
                    break
        assert policy.victim(SegmentKey(0, 1), View()) == at  # type: ignore[arg-type]
        assert policy.state()["at"] == at
        assert policy.state()["jumps"] == jumps


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


@pytest.mark.parametrize("key", [b"one", b"two"])
def test_random_names_everybody_in_time(key):
    store = Memory(POLICIES["random"](PolicySetting(5, key)), slots=5, budget_bytes=5, counts=Between())
    admit(store, (1, 1), (0, 1), (0, 2), (0, 3), (0, 4))
    slots = Counter()
    for t in range(5, 405):
        admit(store, (0, t))
        slots[store.slot_of(SegmentKey(0, t))] += 1
    assert set(slots) == {1, 2, 3, 4}  # slot 0 holds the head of another shard
    assert min(slots.values()) > 60


def test_random_differs_by_key():
    named = []
    for key in (b"one", b"two"):
        store = Memory(POLICIES["random"](PolicySetting(5, key)), slots=5, budget_bytes=5, counts=Between())
        admit(store, *((0, t) for t in range(1, 6)))
        named.append([victim for ((victim,),) in [admit(store, (0, t)) for t in range(6, 20)]])
    assert named[0] != named[1]


@given(data=st.data(), slots=st.integers(3, 7))
def test_cost_names_what_a_full_recount_names(data, slots):
    samples = data.draw(st.lists(st.integers(0, 9), min_size=300, max_size=300))

    def between(shard, after, upto):
        return sum(samples[(shard * 100 + t) % 300] for t in range((after.round if after else 0) + 1, upto.round + 1))

    store = memory("cost", slots, between)
    clock = [0, 0]
    for step in range(140):  # long enough for the heap to be renewed
        shard = data.draw(st.integers(0, 1)) if step % 7 == 0 else step % 2
        if clock[shard] > 2 and data.draw(st.integers(0, 30)) == 0:
            clock[shard] = data.draw(st.integers(1, clock[shard] - 1))
            store.drop_from(SegmentKey(shard, clock[shard] + 1))
        clock[shard] += 1
        newcomer = SegmentKey(shard, clock[shard])
        expected = None
        if len(store) == slots:
            scores = []
            for s in (0, 1):
                own = [*store.stored_of(s), *([newcomer] if s == shard else [])]
                for before, key, after in zip([None, *own], own, own[1:], strict=False):
                    scores.append((between(s, key, after) * between(s, before, key), key))
            expected = min(scores)[1]
        assert admit(store, newcomer) == [[expected] if expected else []]


def test_cost_keeps_no_statistics_of_what_was_dropped():
    store = memory("cost", 6)
    admit(store, *((0, t) for t in range(1, 12)))
    store.drop_from(SegmentKey(0, 1))
    assert not store.policy._scores
    assert not store.policy._heap


def test_static_counts_slices_within_a_round():
    store = memory("static", 4)
    admit(store, (0, 1, 0), (0, 1, 1), (0, 1, 2), (0, 1, 3))
    assert admit(store, (1, 1, 0)) == [[(0, 1, 2)]]  # the newest that is no head


def test_a_free_slot_is_taken_even_when_bytes_must_go():
    store = Memory(POLICIES["fifo"](PolicySetting(4, b"")), slots=4, budget_bytes=30, counts=Between())
    for t in (1, 2, 3):
        store.admit(SubModel(SegmentKey(0, t), bytes(32), 10), b"")
    assert store.admit(SubModel(SegmentKey(0, 4), bytes(32), 10), b"") == [(0, 1, 0)]
    assert store.slot_of(SegmentKey(0, 4)) == 3


def test_when_several_go_the_newcomer_sits_where_the_first_was():
    store = Memory(POLICIES["fifo"](PolicySetting(3, b"")), slots=3, budget_bytes=30, counts=Between())
    for t in (1, 2, 3):
        store.admit(SubModel(SegmentKey(0, t), bytes(32), 10), b"")
    assert store.admit(SubModel(SegmentKey(0, 4), bytes(32), 20), b"") == [(0, 1, 0), (0, 2, 0)]
    assert store.slot_of(SegmentKey(0, 4)) == 0
    assert store.in_flight_bytes == 20


@pytest.mark.parametrize("name", [name for name in POLICIES if POLICIES[name].bounded])
def test_a_newcomer_too_large_is_refused_before_anybody_goes(name):
    store = Memory(POLICIES[name](PolicySetting(4, b"")), slots=4, budget_bytes=40, counts=Between())
    store.admit(SubModel(SegmentKey(1, 1), bytes(32), 10), b"")
    for t in (1, 2, 3):
        store.admit(SubModel(SegmentKey(0, t), bytes(32), 10), b"")
    before = store.stored()
    with pytest.raises(BudgetError, match="does not fit beside"):
        store.admit(SubModel(SegmentKey(0, 4), bytes(32), 31), b"")
    assert store.stored() == before


def test_a_shelf_that_fails_leaves_no_hole():
    class Failing(MemoryShelf):
        fails = False

        def put(self, key, blob):
            if self.fails:
                raise OSError("disk full")
            super().put(key, blob)

    shelf = Failing()
    policy = POLICIES["fifo"](PolicySetting(3, b""))
    store = Memory(policy, slots=3, budget_bytes=3, counts=Between(), shelf=shelf)
    admit(store, (0, 1))
    for _ in range(3):
        shelf.fails = True
        with pytest.raises(OSError, match="disk full"):
            admit(store, (0, 2))
        shelf.fails = False
    admit(store, (0, 2), (0, 3), (0, 4))
    assert sorted(store.slot_of(key) for key in store.stored()) == [0, 1, 2]


def test_the_lowest_free_slot_is_taken_first():
    store = memory("fifo", 5)
    admit(store, (0, 1), (1, 1), (0, 2), (0, 3))
    store.drop_from(SegmentKey(0, 1))
    admit(store, (0, 1))
    assert store.slot_of(SegmentKey(0, 1)) == 0
    admit(store, (0, 2))
    assert store.slot_of(SegmentKey(0, 2)) == 2


def test_a_policy_that_names_a_head_is_caught():
    class Wrong(Policy):
        def victim(self, newcomer, memory):
            return 0

    store = Memory(Wrong(PolicySetting(2, b"")), slots=2, budget_bytes=2, counts=Between())
    admit(store, (0, 1), (1, 1))
    with pytest.raises(PolicyError, match="slot 1"):
        admit(store, (1, 2))


def test_dropped_bytes_are_destroyed():
    store = memory("fifo", 3)
    admit(store, (0, 1), (0, 2))
    store.drop_from(SegmentKey(0, 2))
    with pytest.raises(KeyError):
        store.shelf.get(SegmentKey(0, 2))


def test_fibor_as_printed_starts_anew_in_each_call_and_replaces_heads():
    store = memory("fibor-printed", 4)
    for shard in range(4):
        admit(store, (shard, 1))
    store.policy.begin()
    assert admit(store, (0, 2), (1, 2), (2, 2)) == [[SegmentKey(0, 1)], [SegmentKey(1, 1)], []]
    # slots 1, 2 and 4: the last held the head of shard 3, which goes on from its place beside the slots
    assert store.apart() == [SegmentKey(3, 1)]
    assert store.head(3).key == SegmentKey(3, 1)
    store.policy.begin()
    assert admit(store, (0, 3)) == [[SegmentKey(0, 2)]]  # slot 1 again
    assert admit(store, (3, 2)) == [[SegmentKey(3, 1)]]  # its place was taken over; slot 2 held a head
    assert store.apart() == [SegmentKey(1, 2)]


def test_until_full_never_replaces_and_heads_are_apart():
    store = memory("until-full", 3)
    for round_ in (1, 2, 3):
        for shard in (0, 1):
            admit(store, (shard, round_))
    assert store.stored() == [SegmentKey(0, 1), SegmentKey(0, 2), SegmentKey(0, 3), SegmentKey(1, 1), SegmentKey(1, 3)]
    assert store.apart() == [SegmentKey(0, 3), SegmentKey(1, 3)]
    store.drop_from(SegmentKey(0, 2))
    admit(store, (0, 2))  # a request freed its slot
    assert store.slot_of(SegmentKey(0, 2)) == 2


@pytest.mark.parametrize("name", ["fibor", "static", "fibor-printed", "until-full"])
def test_a_sub_model_can_take_the_place_of_the_one_before(name):
    store = memory(name, 3)
    admit(store, (0, 1), (0, 2))
    slot = store.slot_of(SegmentKey(0, 2))
    newest = SubModel(SegmentKey(0, 3), bytes(32), 1)
    assert store.admit(newest, b"", instead_of=SegmentKey(0, 2)) == [SegmentKey(0, 2)]
    assert store.slot_of(SegmentKey(0, 3)) == slot
    assert store.stored() == [SegmentKey(0, 1), SegmentKey(0, 3)]
