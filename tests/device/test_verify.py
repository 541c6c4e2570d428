"""Verification by replay: it finds what is right, what is wrong, and what it cannot know."""

from dataclasses import replace

import pytest

from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.presets import PRESETS, System
from cause.errors import ChangedError
from tests.clean_room import live
from tests.device.homes import bayes, learn
from tests.learners.test_pruning import learner
from tests.learners.test_torch import SCENE, with_data


@pytest.fixture(scope="module")
def device():
    system = PRESETS["cause-no-sc"]
    return live(SCENE, system, shards=2, slots=12, learner=learner(system), data=with_data).device


def test_every_stored_sub_model_is_identical_in_a_fresh_process(device):
    verification = verify(device, processes=2)
    assert sorted(verification.identical) == device.memory.stored()
    assert verification.sub_models == len(device.memory)
    assert not verification.mismatched
    assert not verification.unverifiable


def test_rehearsal_and_slices_are_replayed_too():
    system = System(slices=2, rehearsal=0.5, policy="cost", requests="coalesced")
    device = live(SCENE, system, shards=2, slots=7, learner=learner(system), data=with_data).device
    assert sorted(verify(device, processes=0).identical) == device.memory.stored()


def test_a_changed_weight_and_a_changed_sample_are_found():
    system = PRESETS["cause-no-sc"]
    device = live(SCENE, system, shards=1, slots=12, learner=learner(system), data=with_data).device
    last = device.memory.stored()[-1]
    state = device.learner.decode(device.memory.shelf.get(last))
    name = next(name for name, tensor in state.items() if tensor.is_floating_point())
    state[name].view(-1)[0] += 1e-4
    device.memory.shelf.put(last, device.learner.encode(state))
    assert verify(device, processes=0).mismatched == [last]
    first = next(iter(device.ledger.lineage(0)))
    first.pieces[0].upload._x[0] += 1.0  # type: ignore[attr-defined]
    assert sorted(verify(device, processes=0).mismatched) == device.memory.stored()


def test_another_environment_is_unverifiable_not_wrong():
    system = PRESETS["cause-no-sc"]
    device = live(SCENE, system, shards=1, slots=12, learner=learner(system), data=with_data).device
    stored = device.memory.stored()
    for key in stored[:2]:
        device.memory._sub_models[key] = replace(device.memory[key], environment="torch 1.0, elsewhere")
    verification = verify(device, processes=0)
    assert sorted(verification.unverifiable) == stored[:2]
    assert sorted(verification.identical) == stored[2:]


def test_what_is_forgotten_until_the_end_of_a_replay_makes_it_void():
    device = Cause(learner=bayes(), system="frugal", shards=1, slots=8)
    learn(device, ann=20, bob=20)

    def forget(done: int, shards: int) -> None:
        device.forget("ann", repair="later")

    with pytest.raises(ChangedError, match="shard 0 was forgotten"):
        verify(device, processes=0, progress=forget)
