"""The law: what is left after forgetting is what would be there had the samples never come."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.device.device import Cause
from cause.engine.presets import FIXED, PRESETS, System
from cause.engine.requests import Request
from cause.engine.samples import Part, TraceUpload
from cause.lab.trace import Add, Round, Trace
from tests.clean_room import clean_room, differences, live
from tests.small_learners import FrequencyLearner, RememberingLearner
from tests.traces import SCENE, traces

PLAIN = System(gamma=FIXED)
GIVEN_THE_PARTITION = {
    **{name: PRESETS[name] for name in PRESETS},
    "hash": System(partition="hash"),
    "balanced": System(partition="balanced"),
    "sliced": System(slices=3),
    "rehearsing": System(rehearsal=0.7),
    "sliced and rehearsing": System("uniform", slices=2, rehearsal=1.0, requests="coalesced"),
}
FROM_SCRATCH = {
    "fixed": System(partition="hash", gamma=FIXED),
    "controlled": System(partition="hash"),
    "sliced and rehearsing": System(partition="hash", slices=3, rehearsal=0.5, policy="cost"),
    "learning": System(partition="hash", gamma=FIXED, policy="adaptive"),  # the clean room has served no request
    "heads apart": System(partition="hash", policy="fibor-printed", active="in-turn", replays="newest"),
}


@pytest.mark.parametrize("name", GIVEN_THE_PARTITION)
@given(trace=traces(), slots=st.integers(4, 12))
def test_exact_given_the_partition(name: str, trace: Trace, slots: int):
    system = GIVEN_THE_PARTITION[name]
    room = live(trace, system, slots=slots)
    assert differences(room.device, clean_room(room, trace, system, slots=slots)) == []


@pytest.mark.parametrize("name", FROM_SCRATCH)
@given(trace=traces(), slots=st.integers(4, 12))
def test_hash_is_history_independent(name: str, trace: Trace, slots: int):
    system = FROM_SCRATCH[name]
    room = live(trace, system, slots=slots)
    clean = clean_room(room, trace, system, given=False, slots=slots)
    assert differences(room.device, clean) == []
    assert {user: room.device.ledger.placement(user) for user, _, _ in room.retained} == {
        user: clean.ledger.placement(user) for user, _, _ in room.retained
    }


def test_ucdp_is_not_history_independent_which_is_why_both_levels_exist():
    system = System(gamma=FIXED)
    problems = []
    for seed in range(20):
        sizes = {f"u{i}": 1 + (i * 7 + seed) % 11 for i in range(9)}
        adds = [Add(user, Part(size)) for user, size in sizes.items()]
        trace = Trace([Round(1, adds, [Request("u0")])])
        room = live(trace, system, shards=3, seed=seed)
        problems += differences(room.device, clean_room(room, trace, system, given=False, seed=seed))
    assert problems


# What an identity is made of


def _one(flavour="plain", seed=0, **changes) -> bytes:
    system = replace(System(gamma=FIXED, partition="hash"), **changes)
    device = Cause(learner=FrequencyLearner(flavour=flavour), system=system, shards=1, slots=4, seed=seed, classes=3)
    device.learn([TraceUpload("a", 1, (Part(4, ((0, 4),)),))])
    device.learn([TraceUpload("b", 2, (Part(4, ((1, 4),)),))])
    return device.memory.head(0).identity


def test_identity_depends_on_recipe_and_seed():
    assert _one() == _one()
    assert len({_one(), _one(flavour="other"), _one(seed=1)}) == 3


def test_identity_depends_on_the_environment(monkeypatch):
    here = _one()
    monkeypatch.setattr(FrequencyLearner, "environment", "another machine")
    assert _one() != here


def test_identity_depends_on_what_is_rehearsed():
    assert _one(rehearsal=0.5) != _one()


def test_identity_does_not_depend_on_policy_or_requests():
    assert _one(policy="cost", requests="coalesced") == _one()


def test_identity_depends_on_all_that_came_before():
    def head(first):
        device = device_with({"a": first}, {"b": 4}, shards=1)
        return device.memory.head(0)

    assert head(3).key == head(5).key
    assert head(3).identity != head(5).identity


def test_a_training_has_a_seed_of_its_own():
    learner, seeds = RememberingLearner(), []

    def train(parent, lesson, seed, tick):
        seeds.append(seed)
        return RememberingLearner.train(learner, parent, lesson, seed)

    learner.train = train  # type: ignore[assignment]
    live(SCENE, System("uniform", FIXED, slices=2, policy="unlimited"), shards=2, learner=learner)
    first = len(set(seeds))
    keys = {lesson.segment for _, lesson in learner.diary}
    assert len({(k.shard, k.round, k.slice) for k in keys}) == first  # one for each shard, round and slice
    assert len(seeds) > first  # … and the same again in a replay


def test_slices_are_cut_by_a_keyed_hash_that_is_not_the_partitions():
    def cut(seed):
        device = Cause(
            learner=RememberingLearner(), system=System("uniform", FIXED, slices=2), shards=2, slots=9, seed=seed
        )
        device.learn([TraceUpload("a", 1, (Part(200),))])
        return {key: sorted(map(int, held)) for key, held in device.ledger.pieces_of("a", 1)}

    assert {(key.shard, key.slice) for key in cut(0)} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    slices = [{p for key, held in cut(seed).items() if key.slice == 0 for p in held} for seed in (0, 1)]
    assert slices[0] != slices[1]
    assert slices[0] != set(range(0, 200, 2))


# Interrupted, and taken up again


@pytest.mark.parametrize("fails_at", range(1, 9))
@pytest.mark.parametrize("where", ["train", "encode"])
def test_a_training_that_fails_is_made_up_for(where, fails_at):
    learner, calls = RememberingLearner(), []
    honest = getattr(learner, where)

    def failing(*args):
        calls.append(args)
        if len(calls) == fails_at:
            raise OSError("power")
        return honest(*args)

    setattr(learner, where, failing)
    system = System("uniform", FIXED)
    device = Cause(learner=learner, system=system, shards=2, slots=8)
    rsn = 0
    for round_ in SCENE.rounds:
        try:
            device.learn(round_.uploads())
        except OSError:
            assert device.repair() == 0  # nothing of it had been trained before
        for request in round_.forgets:
            try:
                rsn += sum(each.rsn for each in device.serve([request]))
            except OSError:
                rsn += device.repair()
    undisturbed = live(SCENE, system, shards=2)
    assert len(calls) > fails_at
    assert device.heads() == undisturbed.device.heads()
    assert differences(device, undisturbed.device) == []


def test_a_plan_does_not_count_what_was_never_trained():
    learner = RememberingLearner()
    device = Cause(learner=learner, system=PLAIN, shards=1, slots=8)
    device.learn([TraceUpload("a", 1, (Part(4),))])
    honest, learner.train = learner.train, None
    with pytest.raises(TypeError):
        device.learn([TraceUpload("b", 2, (Part(5),))])
    learner.train = honest
    (planned,) = device.plan(Request("a", (1,), 1))
    assert planned.replay == ((0, 1, 0), (0, 2, 0))
    assert planned.rsn == device.forget("a", rounds=[1], count=1)[0].rsn == 3


def test_nothing_of_the_forgotten_is_left_in_the_records():
    device = Cause(learner=RememberingLearner(), system=System("uniform", FIXED), shards=2, slots=8, classes=3)
    device.learn([TraceUpload("a", 1, (Part(40, ((0, 20), (1, 20))),)), TraceUpload("b", 1, (Part(5, ((2, 5),)),))])
    device.forget("a", rounds=[1], count=20)
    for shard in device.ledger.shards():
        for segment in device.ledger.lineage(shard):
            for piece in segment.pieces:
                assert list(piece.upload.positions) == list(piece.positions)
                assert 0 not in dict(piece.upload.parts[0].labels)  # type: ignore[attr-defined]
    device.forget("a")
    assert "user='a'" not in str(
        [piece for s in device.ledger.shards() for seg in device.ledger.lineage(s) for piece in seg.pieces]
    )
    assert device.ledger.rounds_of("a") == []


# Users who return, and shards without samples


def device_with(*rounds, system=PLAIN, shards=2) -> Cause:
    device = Cause(learner=RememberingLearner(), system=system, shards=shards, slots=8)
    for t, sizes in enumerate(rounds, start=1):
        device.learn([TraceUpload(user, t, (Part(size),)) for user, size in sizes.items()])
    return device


def test_a_user_whose_last_sample_goes_loses_their_placement():
    device = device_with({"a": 3, "b": 4}, {"a": 2})
    device.forget("a")
    assert device.ledger.placement("a") is None
    assert device.ledger.placement("b") is not None


def test_hash_leaves_no_placement_of_a_forgotten_round():
    system = System(partition="hash")
    users = [f"u{i}" for i in range(12)]
    trace = Trace([Round(t, [Add(user, Part(2)) for user in users]) for t in (1, 2, 3)])
    trace.rounds[2].forgets.extend(Request(user, (3,)) for user in users[:6])
    room = live(trace, system, shards=4)
    clean = clean_room(room, trace, system, given=False)
    assert {u: room.device.ledger.placement(u) for u in users} == {u: clean.ledger.placement(u) for u in users}


def test_a_user_who_keeps_a_sample_keeps_their_placement():
    device = device_with({"a": 3, "b": 4})
    home = device.ledger.placement("a")
    device.forget("a", rounds=[1], count=2)
    assert device.ledger.placement("a") == home


def test_a_shard_without_samples_leaves_the_vote_and_can_start_again():
    device = device_with({"a": 3, "b": 4})
    shard = device.ledger.placement("a")
    device.forget("a")
    assert shard not in device.heads()
    device.learn()
    device.learn([TraceUpload("c", 3, (Part(5),)), TraceUpload("d", 3, (Part(5),)), TraceUpload("e", 3, (Part(5),))])
    assert len(device.heads()) == 2


def test_an_emptied_first_segment_makes_the_next_one_first():
    device = device_with({"a": 3}, {"a": 2}, shards=1)
    device.forget("a", rounds=[1])
    assert device.memory.stored() == [(0, 2, 0)]
    assert device.learner.diary[-1][0] is None  # type: ignore[attr-defined]  # trained from scratch


def test_an_emptied_segment_leaves_no_trace_of_itself():
    device = device_with({"a": 3, "b": 2}, {"a": 2}, shards=1)
    device.forget("a", rounds=[2])
    assert [segment.key.round for segment in device.ledger.lineage(0)] == [1]
    assert list(device.ledger.lineage(77)) == []
    assert device.ledger.shards() == [0]


def test_an_empty_round_counts():
    device = device_with({"a": 3}, {}, {"a": 2}, shards=1)
    assert [key.round for key in device.memory.stored()] == [1, 3]


def test_a_frozen_shard_takes_no_data_but_votes_and_forgets():
    device = device_with(*({f"u{i}": 3 for i in range(8)} for _ in range(4)), system=System(), shards=4)
    assert [device.controller.at(t) for t in (1, 2, 3, 4)] == [3, 3, 2, 2]
    frozen = device.ledger.lineage(2)
    assert [segment.key.round for segment in frozen] == [1, 2]
    assert 2 in device.heads()
    user = next(iter(frozen)).pieces[0].upload.user
    (forgotten,) = device.forget(user, rounds=[1])
    assert [shard.shard for shard in forgotten.shards] == [2]


def test_a_user_whose_shard_froze_is_placed_again_and_old_data_stays():
    device = device_with(*({f"u{i}": 3 for i in range(8)} for _ in range(3)), system=System(), shards=4)
    moved = next(iter(device.ledger.lineage(2))).pieces[0].upload.user
    homes = {key.shard for t in (1, 2, 3) for key, _ in device.ledger.pieces_of(moved, t)}
    assert 2 in homes
    assert device.ledger.placement(moved) in (0, 1)
