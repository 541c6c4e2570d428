"""The simulator against an oracle that shares no code with it, and what its numbers mean together."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.engine.presets import PRESETS, System
from cause.lab.simulate import Setting, device_for, simulate
from cause.lab.trace import Trace, parse_trace
from cause.lab.workload import Workload
from tests.oracle import oracle
from tests.traces import traces

FIELDS = ["system", "rsn", "rsn_per_round", "requests", "replays", "floor_rsn", "stored"]


@pytest.mark.parametrize("requests", ["one-by-one", "coalesced"])
@pytest.mark.parametrize("policy", ["fibor", "fifo", "static", "latest", "unlimited", "cost"])
@given(trace=traces(most_rounds=9), spare=st.integers(0, 6), rehearsal=st.sampled_from([0.0, 0.0, 0.5, 1.0]))
def test_equals_the_oracle(policy: str, requests: str, trace: Trace, spare: int, rehearsal: float):
    lines = [json.loads(line) for line in trace.lines()]
    slots = trace.given_shards + spare
    system = System(partition="given", policy=policy, requests=requests, rehearsal=rehearsal)
    result = simulate(trace, "x", system, Setting(slots=slots)).as_dict()
    expected = oracle(lines, policy=policy, slots=slots, requests=requests, rehearsal=rehearsal)
    floor = oracle(lines, policy="unlimited", slots=None, requests=requests, rehearsal=rehearsal)
    shown = len(expected["rsn_per_round"])  # the oracle ends at the last line, a trace may end in empty rounds
    assert result["rsn_per_round"][:shown] == expected["rsn_per_round"]
    assert not any(result["rsn_per_round"][shown:])
    assert result["rsn"] == expected["rsn"]
    assert result["requests"] == expected["requests"]
    assert result["replays"] == expected["replays"]
    assert result["stored"] == expected["stored"]
    assert result["floor_rsn"] == floor["rsn"]


@pytest.mark.parametrize("name", list(PRESETS))
@given(trace=traces(), slots=st.integers(4, 12))
def test_numbers_agree_with_each_other(name: str, trace: Trace, slots: int):
    setting = Setting(slots=slots, classes=4)
    result = simulate(trace, name, PRESETS[name], setting)
    endless = simulate(trace, name, System(**{**vars(PRESETS[name]), "policy": "unlimited"}), setting)
    assert list(result.as_dict()) == FIELDS
    assert sum(result.rsn_per_round) == result.rsn >= result.floor_rsn == endless.rsn
    assert len(result.rsn_per_round) == len(trace.rounds)
    assert result.stored == sorted(result.stored)


def test_stored_names_the_slice_when_there_are_slices():
    trace = Workload(users=5, rounds=2, samples=100).trace()
    result = simulate(trace, "x", System(slices=3), Setting())
    assert {len(key) for key in result.stored} == {3}
    assert {key[2] for key in result.stored} == {0, 1, 2}


def test_the_papers_memory_is_67_slots_and_never_binds():
    assert device_for(Trace([]), PRESETS["cause"], Setting()).memory.slots == 67
    result = simulate(Workload(seed=1).trace(), "cause", PRESETS["cause"])
    assert len(result.stored) == 22
    assert result.rsn == result.floor_rsn


def test_given_takes_the_number_of_shards_from_the_trace():
    trace = parse_trace(['{"round": 1, "add": {"user": "a", "count": 3, "shard": 6}}'], partitions=["given"])
    assert simulate(trace, "x", System(partition="given"), Setting(shards=2, slots=7)).stored == [[6, 1]]
