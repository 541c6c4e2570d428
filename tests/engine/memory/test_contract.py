"""What every replacement policy must do. A new one is tested by being registered."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.engine.memory import POLICIES, Memory, PolicySetting, SubModel
from cause.engine.samples import SegmentKey
from cause.errors import BudgetError
from tests.engine.memory.counts import Counted, Ones

BOUNDED = [name for name in POLICIES if POLICIES[name].bounded]


class Watched(Memory):
    """A memory that checks every eviction."""

    def _evict(self, slot, newcomer):
        key = self._occupant(slot)
        assert key is not None
        head = key.shard != newcomer.key.shard and self.stored_of(key.shard)[-1] == key
        assert self.policy.heads_apart or not head, "a head was named"
        evicted = super()._evict(slot, newcomer)
        assert evicted == ([] if head else [key]), "a head was destroyed"
        return evicted


def memory(name, slots, size=1, budget=None):
    policy = POLICIES[name](PolicySetting(slots, b"key"))
    budget_bytes = (budget or slots * size) + 3 * size * policy.heads_apart
    return Watched(policy, slots=slots, budget_bytes=budget_bytes, counts=Ones())


@st.composite
def histories(draw, shards=3):
    """Admissions in order of a shard's rounds, and drops that make it start again from an earlier one."""
    clock = [0] * shards
    steps = []
    for _ in range(draw(st.integers(1, 60))):
        shard = draw(st.integers(0, shards - 1))
        if clock[shard] and draw(st.integers(0, 5)) == 0:
            clock[shard] = draw(st.integers(0, clock[shard] - 1))
            steps.append(("drop", SegmentKey(shard, clock[shard] + 1)))
        else:
            clock[shard] += 1
            steps.append(("admit", SegmentKey(shard, clock[shard])))
    return steps


def play(store, steps, size=lambda key: 1):
    for what, key in steps:
        if what == "drop":
            store.drop_from(key)
            assert not [k for k in store.stored() if k.shard == key.shard and k >= key]
        else:
            store.admit(SubModel(key, bytes(32), size(key)), b"blob")
            assert store.head(key.shard).key == key
        assert len(store) - len(store.apart()) <= store.slots
        assert {key.shard for key in store.apart()} == {
            key.shard for key in store.apart() if store.head(key.shard).key == key
        }
        assert store.used_bytes == sum(size(k) for k in store.stored()) <= store.budget_bytes
    return store


@pytest.mark.parametrize("name", BOUNDED)
@given(steps=histories(), slots=st.integers(3, 9))
def test_never_over_budget_never_a_head(name, steps, slots):
    play(memory(name, slots), steps)


@pytest.mark.parametrize("name", BOUNDED)
@given(steps=histories(), slots=st.integers(6, 9))
def test_further_victims_follow_when_sizes_leave_no_room(name, steps, slots):
    play(memory(name, slots, budget=slots * 2), steps, size=lambda key: 1 + key.round % 4)


@pytest.mark.parametrize("name", list(POLICIES))
@given(steps=histories(), slots=st.integers(3, 9))
def test_same_history_same_memory(name, steps, slots):
    a, b = (play(memory(name, slots if POLICIES[name].bounded else 10**6), steps) for _ in range(2))
    assert a.stored() == b.stored()


class Life:
    """One memory over a ledger of its own, in one process or in several."""

    def __init__(self, name, slots):
        self.name, self.slots = name, slots if POLICIES[name].bounded else 10**6
        self.samples = {}  # by (shard, round), as the ledger holds them
        self.counts = Counted(self.samples)
        self.memory = self.new()

    def new(self, shelf=None):
        policy = POLICIES[self.name](PolicySetting(self.slots, b"key"))
        budget_bytes = self.slots * 3 + 9 * policy.heads_apart
        return Memory(policy, slots=self.slots, budget_bytes=budget_bytes, counts=self.counts, shelf=shelf)

    def step(self, what, shard, round_, count):
        """What a step changes: the keys that left."""
        key = SegmentKey(shard, round_)
        self.counts.round = max(self.counts.round, round_)
        if what == "admit":
            self.samples.setdefault((shard, round_), count + 1)
            if count % 3:
                self.memory.policy.begin()
            return self.memory.admit(SubModel(key, bytes(32), 1 + count % 3), b"blob")
        if what == "forget":  # first the samples, then every sub-model that has seen them
            self.samples[shard, round_] = min(count, self.samples.get((shard, round_), 0))
            dropped = self.memory.drop_from(key)
            self.memory.policy.requested([key], self.memory)
            return dropped
        stored = self.memory.stored()
        if stored:
            self.memory.discard(stored[count % len(stored)])
        return [stored[count % len(stored)]] if stored else []

    def reopen(self, *, same):
        """What the next process does, or (`same`) what this one does after an error."""
        state = json.loads(json.dumps(self.memory.policy.state()))
        stored = [(self.memory.slot_of(key), self.memory[key]) for key in self.memory.stored()]
        memory = self.memory if same else self.new(self.memory.shelf)
        memory.restore(stored, state, {})
        self.memory = memory

    def view(self):
        memory = self.memory
        slots = {key: memory.slot_of(key) for key in memory.stored()}
        return slots, memory.used_bytes, memory.in_flight_bytes, memory.policy.state()


@st.composite
def lives(draw, shards=3):
    """Steps of a device: sub-models are admitted, samples forgotten, damaged sub-models discarded."""
    clock, steps = [0] * shards, []
    for _ in range(draw(st.integers(1, 60))):
        shard, kind, count = draw(st.integers(0, shards - 1)), draw(st.integers(0, 9)), draw(st.integers(0, 20))
        if clock[shard] and kind == 0:
            round_ = draw(st.integers(1, clock[shard]))
            clock[shard] = round_ - 1
            steps.append(("forget", shard, round_, count))
        elif kind == 1:
            steps.append(("discard", shard, 0, count))
        else:
            clock[shard] += 1
            steps.append(("admit", shard, clock[shard], count))
    return steps


@pytest.mark.parametrize("name", list(POLICIES))
@given(
    steps=lives(),
    slots=st.integers(6, 9),
    cuts=st.sets(st.integers(0, 60), max_size=12),
    errors=st.sets(st.integers(0, 60), max_size=3),
)
def test_a_trace_cut_into_processes_gives_what_one_process_gives(name, steps, slots, cuts, errors):
    whole, cut = Life(name, slots), Life(name, slots)
    for number, step in enumerate(steps):
        if number in cuts:
            cut.reopen(same=False)
        if number in errors:
            cut.reopen(same=True)
        assert cut.step(*step) == whole.step(*step)
        assert cut.view() == whole.view()


@pytest.mark.parametrize("name", BOUNDED)
def test_fewer_slots_than_are_in_use_are_refused(name):
    life = Life(name, 6)
    if life.memory.policy.heads_apart:
        pytest.skip("a head that has no slot is in its place, however few slots there are")
    for shard in range(3):
        for round_ in (1, 2):
            life.step("admit", shard, round_, 0)
    stored = [(life.memory.slot_of(key), life.memory[key]) for key in life.memory.stored()]
    smaller = Life(name, len(stored) - 1)
    with pytest.raises(BudgetError, match=f"{len(stored)} of the memory's slots are in use, and only"):
        smaller.memory.restore(stored, life.memory.policy.state(), {})


@given(steps=histories())
def test_unlimited_keeps_everything(steps):
    store = play(memory("unlimited", 10**6), steps)
    clock = {}
    for what, key in steps:
        own = clock.setdefault(key.shard, [])
        if what == "drop":
            own[:] = [k for k in own if k < key]
        else:
            own.append(key)
    assert store.stored() == sorted(k for own in clock.values() for k in own)
