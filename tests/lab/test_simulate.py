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
    found = simulate(trace, "x", system, Setting(slots=slots)).as_dict()
    expected = oracle(lines, policy=policy, slots=slots, requests=requests, rehearsal=rehearsal)
    floor = oracle(lines, policy="unlimited", slots=None, requests=requests, rehearsal=rehearsal)
    shown = len(expected["rsn_per_round"])  # the oracle ends at the last line, a trace may end in empty rounds
    assert found["rsn_per_round"][:shown] == expected["rsn_per_round"]
    assert not any(found["rsn_per_round"][shown:])
    assert found["rsn"] == expected["rsn"]
    assert found["requests"] == expected["requests"]
    assert found["replays"] == expected["replays"]
    assert found["stored"] == expected["stored"]
    assert found["floor_rsn"] == floor["rsn"]


@pytest.mark.parametrize("name", list(PRESETS))
@given(trace=traces(), slots=st.integers(4, 12))
def test_numbers_agree_with_each_other(name: str, trace: Trace, slots: int):
    setting = Setting(slots=slots, classes=4)
    found = simulate(trace, name, PRESETS[name], setting)
    endless = simulate(trace, name, System(**{**vars(PRESETS[name]), "policy": "unlimited"}), setting)
    assert list(found.as_dict()) == FIELDS
    assert sum(found.rsn_per_round) == found.rsn >= found.floor_rsn == endless.rsn
    assert len(found.rsn_per_round) == len(trace.rounds)
    assert found.stored == sorted(found.stored)


def test_stored_names_the_slice_when_there_are_slices():
    trace = Workload(users=5, rounds=2, samples=100).trace()
    found = simulate(trace, "x", System(slices=3), Setting())
    assert {len(key) for key in found.stored} == {3}
    assert {key[2] for key in found.stored} == {0, 1, 2}


def test_the_papers_memory_is_67_slots_and_never_binds():
    assert device_for(Trace([]), PRESETS["cause"], Setting()).memory.slots == 67
    found = simulate(Workload(seed=1).trace(), "cause", PRESETS["cause"])
    assert len(found.stored) == 22
    assert found.rsn == found.floor_rsn


def test_given_takes_the_number_of_shards_from_the_trace():
    trace = parse_trace(['{"round": 1, "add": {"user": "a", "count": 3, "shard": 6}}'], partitions=["given"])
    assert simulate(trace, "x", System(partition="given"), Setting(shards=2, slots=7)).stored == [[6, 1]]
