"""The clean room of the laboratory, beside devices whose rounds go to other shards each time, or have nothing left."""

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
