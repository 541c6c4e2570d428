"""What holds for every system, policy and random trace."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.device.device import Cause
from cause.engine.memory import POLICIES
from cause.engine.presets import PRESETS, System
from cause.lab.trace import Trace
from tests.clean_room import Room, check_invariants, live, seen
from tests.small_learners import RememberingLearner
from tests.traces import CLASSES, traces

EVERY_SYSTEM = [
    *((name, PRESETS[name]) for name in PRESETS),
    *((f"cause with {policy}", System(policy=policy)) for policy in POLICIES if policy != "fibor"),
    ("cause with hash", System(partition="hash")),
    ("cause with balanced", System(partition="balanced")),
    ("given", System(partition="given")),
    ("sliced", System(slices=3, policy="cost")),
    ("rehearsing", System(rehearsal=0.7)),
    ("sliced, rehearsing, coalesced, uniform", System("uniform", slices=2, rehearsal=1.5, requests="coalesced")),
]
QUICK = (
    *("cause", "cause-u", "cause-c", "sisa", "omp-70", "frugal", "recommended", "cause with cost", "cause with hash"),
    *("given", "sliced", "rehearsing", "sliced, rehearsing, coalesced, uniform"),
)
every_system = pytest.mark.parametrize(
    "system",
    [pytest.param(system, id=name, marks=[] if name in QUICK else pytest.mark.long) for name, system in EVERY_SYSTEM],
)


@every_system
@given(trace=traces(), slots=st.integers(4, 12), shards=st.integers(1, 4))
def test_invariants_hold_after_every_step(system: System, trace: Trace, slots: int, shards: int):
    live(
        trace, system, shards=max(shards, trace.given_shards), slots=slots, after=lambda room, _: check_invariants(room)
    )


@every_system
@given(trace=traces(), slots=st.integers(4, 12))
def test_every_replay_starts_from_the_newest_clean_sub_model(system: System, trace: Trace, slots: int):
    learner = RememberingLearner()
    before: dict = {}

    def watch(room: Room, forgotten) -> None:
        for each in forgotten:
            began = iter(learner.diary)
            for shard in each.shards:
                stored = [key for key in before if key.shard == shard.shard and key < shard.first]
                assert shard.restart == max(stored, default=None)
                first = (
                    next((parent, lesson) for parent, lesson in began if lesson.segment.shard == shard.shard)
                    if (shard.replay)
                    else None
                )
                if first:
                    assert first[0] == (before[shard.restart] if shard.restart else None)
                    assert first[1].segment == shard.replay[0]
        before.clear()
        before.update({key: frozenset(seen(room.device, key)) for key in room.device.memory.stored()})
        learner.diary.clear()

    live(trace, system, slots=slots, learner=learner, after=watch)


@every_system
@given(trace=traces(), slots=st.integers(4, 12))
def test_a_plan_tells_exactly_what_forgetting_then_does(system: System, trace: Trace, slots: int):
    learner = RememberingLearner()

    def watch(room: Room, forgotten) -> None:
        for each in forgotten:
            assert each.rsn == sum(shard.rsn for shard in each.shards)
            assert tuple(lesson.segment for _, lesson in learner.diary) == tuple(
                key for shard in each.shards for key in shard.replay
            )
        learner.diary.clear()

    live(trace, system, slots=slots, learner=learner, after=watch)


@every_system
@given(trace=traces(), slots=st.integers(4, 12))
def test_coalesced_and_one_by_one_end_alike(system: System, trace: Trace, slots: int):
    one, all_ = (
        live(trace, replace(system, requests=requests), slots=slots).device for requests in ("one-by-one", "coalesced")
    )
    assert one.heads() == all_.heads()
    for shard in one.ledger.shards():
        assert [s.manifest for s in one.ledger.lineage(shard)] == [s.manifest for s in all_.ledger.lineage(shard)]


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "unlimited"])
@given(trace=traces(most_rounds=8), slots=st.integers(4, 10), rehearsal=st.sampled_from([0.0, 0.5]))
def test_unlimited_never_costs_more(policy: str, trace: Trace, slots: int, rehearsal: float):
    bounded = live(trace, System(policy=policy, rehearsal=rehearsal), slots=slots)
    endless = live(trace, System(policy="unlimited", rehearsal=rehearsal))
    for some, least in zip(bounded.rsn_per_round, endless.rsn_per_round, strict=True):
        assert least <= some


@pytest.mark.parametrize("policy", list(POLICIES))
@given(data=st.data(), trace=traces(most_rounds=8))
def test_encoded_sizes_may_differ_and_the_budget_holds(policy: str, data, trace: Trace):
    largest = data.draw(st.integers(100, 160), label="largest")
    learner = RememberingLearner(size=lambda state: 40 + (37 * len(state)) % (largest - 39))
    slots = 4 + largest // 50  # room for the heads, however large
    live(
        trace,
        System(policy=policy, gamma=1.0),
        slots=slots,
        learner=learner,
        after=lambda room, _: check_invariants(room),
    )


@every_system
@given(trace=traces())
def test_same_trace_and_seed_same_everything(system: System, trace: Trace):
    a, b = (live(trace, system, seed=7) for _ in range(2))
    assert a.rsn_per_round == b.rsn_per_round
    assert [a.device.memory[key] for key in a.device.memory.stored()] == [
        b.device.memory[key] for key in b.device.memory.stored()
    ]


@given(trace=traces())
def test_the_order_of_uploads_within_a_round_does_not_matter(trace: Trace):
    devices = []
    for flip in (1, -1):
        device = Cause(learner=RememberingLearner(), system="cause", slots=8, classes=CLASSES)
        for round_ in trace.rounds:
            device.learn(round_.uploads()[::flip])
        devices.append(device)
    assert devices[0].heads() == devices[1].heads()
