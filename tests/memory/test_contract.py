"""What every replacement policy must do. A new one is tested by being registered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.memory import POLICIES, Memory, PolicySetting, SubModel
from cause.samples import SegmentKey

BOUNDED = [name for name in POLICIES if POLICIES[name].bounded]


class Watched(Memory):
    """A memory that checks every eviction."""

    def _evict(self, slot, newcomer):
        key = self._occupant(slot)
        assert key is not None
        assert key.shard == newcomer.key.shard or self.stored_of(key.shard)[-1] != key, "a head was named"
        return super()._evict(slot, newcomer)


def memory(name, slots, size=1, budget=None):
    policy = POLICIES[name](PolicySetting(slots, b"key"))
    budget_bytes = budget or slots * size
    return Watched(
        policy, slots=slots, budget_bytes=budget_bytes, samples_between=lambda s, a, b: b.round - (a.round if a else 0)
    )


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
        assert len(store) <= store.slots
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


@pytest.mark.parametrize("name", BOUNDED)
@given(steps=histories(), slots=st.integers(3, 9), cut=st.integers(0, 60))
def test_a_policy_goes_on_after_a_restart_as_if_nothing_had_happened(name, steps, slots, cut):
    whole = play(memory(name, slots), steps)
    halted = play(memory(name, slots), steps[:cut])
    policy = POLICIES[name](PolicySetting(slots, b"key"))
    policy.restore(halted.policy.state(), halted)
    halted.policy = policy
    assert play(halted, steps[cut:]).stored() == whole.stored()


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
