"""Whether a network is pruned follows from what a device is made with, and from nothing else."""

import pytest

from cause.device.device import Cause
from cause.engine.composition import PLANNED_ROUNDS, with_pruning_decided
from cause.engine.presets import PRESETS, parse_system, system_text
from cause.errors import InputError
from cause.lab.simulate import Setting, simulate
from cause.lab.trace import parse_trace
from cause.learners import CountingLearner

RECOMMENDED = PRESETS["recommended"]
HEADS = 3  # of four shards, under the shard controller


def pruning(memory, slots=None, system=RECOMMENDED):
    return with_pruning_decided(system, lambda each: 1000 if each.pruning == "none" else 300, 4, memory, slots).pruning


def test_a_network_is_pruned_only_where_the_memory_is_short():
    ample = PLANNED_ROUNDS * HEADS * 1000
    assert (pruning(ample), pruning(ample - 1)) == ("none", "iterative-70")


def test_where_memory_is_counted_in_sub_models_nothing_is_pruned():
    assert pruning("1KB", slots=4) == "none"


def test_a_pruning_that_was_named_stays():
    assert pruning(10**9, system=PRESETS["frugal"]) == "iterative-70"
    assert pruning(1, system=PRESETS["sisa"]) == "none"


def test_a_device_without_a_named_system_is_the_recommended_one():
    device = Cause(learner=CountingLearner(1000), memory=PLANNED_ROUNDS * HEADS * 1000)
    assert system_text(device.system) == "recommended:pruning=none"
    assert parse_system(system_text(device.system))[1] == device.system


def test_a_simulation_settles_the_pruning_too():
    trace = parse_trace(['{"round": 1, "add": {"user": "u7", "count": 31}}'])
    assert simulate(trace, "recommended", RECOMMENDED, Setting(memory="100MB")).requests == 0  # 43 MB each, unpruned


@pytest.mark.parametrize(("text", "message"), [("min_steps=-1", "min_steps must be"), ("estimators=x", "estimators")])
def test_parts_are_checked(text, message):
    with pytest.raises(InputError, match=message):
        parse_system(f"recommended:{text}")
