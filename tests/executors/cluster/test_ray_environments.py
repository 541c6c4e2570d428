"""Ray nodes of two environments: torch without vector instructions on one of them, so that its bits really differ.

Skipped without Ray; `make test-cluster` runs them.
"""

import json
import os
import subprocess
import sys
import warnings
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from cause.cli import main
from cause.device.device import Cause
from cause.errors import AbsentEnvironmentError
from cause.executors.cluster import RayExecutor
from tests.executors.cluster.nodes import MEMORY, local_nodes
from tests.executors.cluster.ray_needed import MARKS, let_nodes_import_tests
from tests.waiting import wait_until

pytestmark = MARKS
LEASE_S = 2.0
PLAIN = {"ATEN_CPU_CAPABILITY": "default"}
SETTINGS: dict[str, Any] = {"system": "frugal:partition=hash", "shards": 4, "slots": 30, "seed": 3}


def learner():
    from cause.learners.torch import TorchLearner

    return TorchLearner("cnn", classes=3, shape=(1, 8, 8), epochs=2)


def uploads(round_):
    draw = np.random.default_rng(round_)
    return {f"u{n}": (draw.normal(size=(12, 1, 8, 8)).astype(np.float32), draw.integers(3, size=12)) for n in range(6)}


def lived(home=None, executor=None):
    """A device that learned two rounds and forgot."""
    device = Cause(home, learner=learner(), executor=executor, **SETTINGS)
    device.learn(uploads(1))
    device.learn(uploads(2))
    device.forget("u1", rounds=[1])
    return device


def heads(device):
    """Environment, identity and bits of each head."""
    return {
        str(shard): [head.environment, head.identity.hex(), device.load(head).hex()]
        for shard, head in device.heads().items()
    }


def wholly_in(variables):
    """The heads of a device that a process with these variables trained alone."""
    program = (
        "import json\nfrom tests.executors.cluster.test_ray_environments import heads, lived\n"
        "print(json.dumps(heads(lived())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.fixture
def cluster():
    """The head is as this machine, the second node without vector instructions."""
    let_nodes_import_tests()
    with local_nodes(1) as found:
        found.plain = found.add_node(num_cpus=1, env_vars=PLAIN, **MEMORY)
        found.wait_for_nodes()
        yield found


def whole_shards(cluster):
    return closing(RayExecutor(cluster.address, lease=LEASE_S, other_environments="whole-shards"))


def test_whole_shards_have_the_bits_of_the_node_that_trained_them(cluster, tmp_path, monkeypatch, capsys):
    own, other = wholly_in({}), wholly_in(PLAIN)
    (own_name,), (other_name,) = ({head[0] for head in found.values()} for found in (own, other))
    with whole_shards(cluster) as executor, closing(lived(tmp_path / "home", executor)) as device:
        placed = dict(device.memory.environments)
        assert sorted(placed.values()) == sorted([own_name, other_name] * 2)
        expected = {shard: (own if placed[int(shard)] == own_name else other)[shard] for shard in own}
        assert heads(device) == expected
        of_other = {shard for shard, name in placed.items() if name == other_name} & set(device.ledger.shards())
        assert any(own[str(shard)][2] != other[str(shard)][2] for shard in of_other), "its bits really differ"
        executor.close()  # its idle workers leave their room to those of the replay
        with whole_shards(cluster) as replaying:
            report = device.verify(executor=replaying)
        assert report.identical == device.memory.stored()
        assert (report.mismatched, report.unverifiable) == ([], [])
        here = device.verify(processes=0)
        assert {key.shard for key in here.unverifiable} == of_other
        assert here.mismatched == []

        cluster.remove_node(cluster.plain, allow_graceful=False)
        alive = executor._client.nodes
        wait_until(lambda: len(alive()) == 1, 60)
        with pytest.raises(AbsentEnvironmentError, match=rf"shard {min(of_other)} waits .*DEFAULT"):
            device.learn(uploads(3))
        assert set(device.waiting()) == of_other
        with pytest.raises(AbsentEnvironmentError):
            device.forget("u2")
        assert device.ledger.rounds_of("u2") == []
        assert all(shard.problem for shard in device.status().shards if shard.shard in of_other)
        cluster.add_node(num_cpus=1, env_vars=PLAIN, **MEMORY)
        wait_until(lambda: len(alive()) == 2, 60)
        device.repair()
        assert device.waiting() == []
        assert {head.environment for head in device.heads().values()} == {own_name, other_name}

    monkeypatch.chdir(tmp_path)
    where = ("--ray", cluster.address, "--other-environments", "whole-shards", "--json")
    with pytest.raises(SystemExit, match="0"):
        main(["verify", "--home", "home", *where])
    verified = json.loads(capsys.readouterr().out)
    assert (verified["mismatched"], verified["unverifiable"], verified["identical"] > 0) == (0, 0, True)


def test_nodes_of_another_environment_are_refused_unless_told_otherwise(cluster):
    with warnings.catch_warnings(record=True) as said, closing(RayExecutor(cluster.address, lease=LEASE_S)) as executor:
        warnings.simplefilter("always")
        device = lived(executor=executor)
    assert heads(device) == wholly_in({})
    assert device.memory.environments == {}
    assert any("is not used, it has another environment: DEFAULT there" in str(each.message) for each in said)
