"""Nodes of another environment train whole shards: real processes with other variables, all but Ray."""

import contextlib
import itertools
from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from cause.device.device import Cause
from cause.errors import AbsentEnvironmentError, InputError, PassingError
from cause.executors.cluster import node_pool
from cause.executors.cluster.node_pool import NodePool
from cause.executors.cluster.remote import RemoteProcess
from cause.service.settings import ServeSettings
from tests.clean_room import differences
from tests.executors.cluster.local_nodes import LocalNodes
from tests.two_environments import HERE, OTHER, Machines, PrecisionLearner, uploads
from tests.waiting import wait_until

SETTINGS: dict[str, Any] = {"system": "frugal:partition=hash", "shards": 3, "slots": 30, "seed": 3}


def lived(executor):
    device = Cause(learner=PrecisionLearner(), executor=executor, **SETTINGS)
    device.learn(uploads(1))
    device.forget("ann")
    return device


def test_each_node_gets_the_shards_of_its_environment_and_is_asked_once():
    with closing(LocalNodes({"a": HERE, "b": OTHER})) as nodes:
        device = lived(nodes)
        assert differences(device, lived(Machines(float64=1, float32=1))) == []
        assert set(device.memory.environments.values()) == {HERE, OTHER}
        assert nodes.refused == []
        assert {head.environment for head in device.heads().values()} == {HERE, OTHER}
        asked = len(nodes.started)
        with closing(LocalNodes({"a": HERE, "b": OTHER})) as others:
            assert device.verify(executor=others).identical == device.memory.stored()
        assert len(nodes.started) == asked
        of_other = [shard for shard, environment in device.memory.environments.items() if environment == OTHER]
        del nodes.nodes["b"]  # the node ends
        with pytest.raises(AbsentEnvironmentError, match=f"shard {min(of_other)} waits .*{OTHER}"):
            device.learn(uploads(2))
        assert device.waiting() == of_other
        nodes.nodes["c"] = OTHER
        device.repair()
        assert device.waiting() == []
        with closing(LocalNodes({"a": HERE})) as others:
            assert {key.shard for key in device.verify(executor=others).unverifiable} == set(of_other)


def test_a_node_whose_environment_changed_refuses_and_is_used_for_its_new_one():
    with closing(LocalNodes({"a": HERE, "b": OTHER})) as nodes:
        device = Cause(learner=PrecisionLearner(), executor=nodes, **SETTINGS)
        nodes.environments(PrecisionLearner())
        nodes._end_idle()
        nodes.nodes["b"] = HERE  # as after an upgrade of the node
        with pytest.raises(AbsentEnvironmentError):
            device.learn(uploads(1))
        assert nodes.refused == [HERE]
        assert {head.environment for head in device.heads().values()} == {HERE}


@pytest.mark.filterwarnings("ignore:.*it told no environment")
def test_a_node_whose_worker_is_killed_when_asked_is_asked_again_soon(monkeypatch):
    asked, ask = [], RemoteProcess.ask_environment

    def kill_first(process, learner):
        asked.append(process)
        answer = ask(process, learner)
        if len(asked) == 1:
            process.kill()
        return answer

    monkeypatch.setattr(RemoteProcess, "ask_environment", kill_first)
    with closing(LocalNodes({"a": OTHER})) as nodes:
        with pytest.raises(PassingError, match="no node of the cluster can be used: it told no environment"):
            nodes.environments(PrecisionLearner())

        def told() -> bool:
            with contextlib.suppress(PassingError):
                return nodes.environments(PrecisionLearner()) == {OTHER: 1}
            return False

        wait_until(told, 20)
        assert len(asked) == 2


@pytest.mark.filterwarnings("ignore:.*it told no environment")
def test_a_node_that_never_tells_its_environment_is_asked_ever_less(monkeypatch):
    def fall_silent(process, learner):
        clock[0] += 60.0
        answer = Future()
        answer.cancel()
        return answer

    clock = [1000.0]
    monkeypatch.setattr(RemoteProcess, "ask_environment", fall_silent)
    monkeypatch.setattr(node_pool, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with closing(LocalNodes({"a": OTHER})) as nodes:
        times = []
        while len(times) < 7:
            before = clock[0]
            with pytest.raises(PassingError):
                nodes.environments(PrecisionLearner())
            if clock[0] > before:
                times.append(before)
            clock[0] += 10.0
    assert [later - earlier - 60 for earlier, later in itertools.pairwise(times)] == [60, 120, 240, 480, 600, 600]


def test_settings_take_one_of_two_words_and_a_cluster():
    with pytest.raises(InputError, match="unknown other_environments 'all'"):
        ServeSettings(ray="auto", other_environments="all")
    with pytest.raises(InputError, match="name the cluster with ray"):
        ServeSettings(other_environments="whole-shards")
    assert ServeSettings(ray="auto", other_environments="whole-shards").other_environments == "whole-shards"
    with pytest.raises(InputError, match="unknown other_environments 'some'"):
        NodePool.__init__(object.__new__(LocalNodes), 1, 5.0, "some")
