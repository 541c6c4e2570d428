"""The clean room of the laboratory, beside devices whose rounds go to other shards each time, or have nothing left."""

from dataclasses import replace

import pytest

from cause import Cause
from cause.engine.samples import Part, TraceUpload
from cause.lab.clean_room import clean_room, compare
from tests.small_learners import RememberingLearner

USERS = "abcdefgh"


def device_after(rounds, system):
    device = Cause(learner=RememberingLearner(), system=system, shards=5, slots=99, seed=3)
    for uploads in rounds:
        device.learn(uploads)
    return device


@pytest.mark.parametrize("system", ["cause", "cause-printed"])
def test_samples_are_in_the_shards_of_the_device_whichever_are_active(system):
    rounds = [[TraceUpload(user, t, (Part(6),)) for user in USERS] for t in range(1, 6)]
    device = device_after(rounds, system)
    device.forget("a", rounds=[1], count=4)
    device.forget("c", rounds=[2, 3])
    clean = clean_room(device, RememberingLearner(), rounds, seed=3)
    assert {shard: [s.key for s in device.ledger.lineage(shard)] for shard in device.ledger.shards()} == {
        shard: [s.key for s in clean.ledger.lineage(shard)] for shard in clean.ledger.shards()
    }
    assert compare(device, clean).holds


def test_a_round_that_is_forgotten_as_a_whole_still_counts():
    rounds = [[TraceUpload("a" if t == 2 else "b", t, (Part(6),))] for t in (1, 2, 3)]
    device = device_after(rounds, "cause")
    device.forget("a")
    comparison = compare(device, clean_room(device, RememberingLearner(), rounds, seed=3))
    assert comparison.mismatched == []
    assert {key.round for key in comparison.identical} == {1, 3}


@pytest.mark.parametrize("what", ["bits", "identity"])
def test_other_bits_and_another_identity_are_found(what):
    rounds = [[TraceUpload("a", t, (Part(6),))] for t in (1, 2)]
    device = device_after(rounds, "cause")
    clean = clean_room(device, RememberingLearner(), rounds, seed=3)
    first, *_ = stored = device.memory.stored()
    assert compare(device, clean).identical == stored
    if what == "bits":
        device.memory.shelf.put(first, clean.memory.shelf.get(first) + b"\0")
    else:
        device.memory._sub_models[first] = replace(device.memory[first], identity=bytes(32))
    assert compare(device, clean).mismatched == [first]


def test_a_shard_with_an_environment_of_its_own_has_it_in_the_clean_room_too():
    rounds = [[TraceUpload(user, 1, (Part(6),)) for user in USERS]]
    device = device_after(rounds, "cause")
    shard, *_ = device.ledger.shards()
    device.memory.environments[shard] = device.learner.environment
    assert clean_room(device, RememberingLearner(), rounds, seed=3).memory.environments == device.memory.environments
