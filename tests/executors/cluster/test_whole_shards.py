"""Nodes of another environment train whole shards: real processes with other variables, all but Ray."""

from contextlib import closing
from typing import Any

import pytest

from cause.device.device import Cause
from cause.errors import AbsentEnvironmentError, InputError
from cause.executors.cluster.node_pool import NodePool
from cause.service.settings import ServeSettings
from tests.clean_room import differences
from tests.executors.cluster.local_nodes import LocalNodes
from tests.two_environments import HERE, OTHER, Machines, PrecisionLearner, uploads

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


def test_settings_take_one_of_two_words_and_a_cluster():
    with pytest.raises(InputError, match="unknown other_environments 'all'"):
        ServeSettings(ray="auto", other_environments="all")
    with pytest.raises(InputError, match="name the cluster with ray"):
        ServeSettings(other_environments="whole-shards")
    assert ServeSettings(ray="auto", other_environments="whole-shards").other_environments == "whole-shards"
    with pytest.raises(InputError, match="unknown other_environments 'some'"):
        NodePool.__init__(object.__new__(LocalNodes), 1, 5.0, "some")
