"""The torture of the cluster detects what it is for: each planted leak is reported, and nothing without one."""

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from cause.device.device import Cause
from tests.clean_room import differences
from tests.device.homes import MASTER
from tests.torture_cluster.device import SHARDS, SLOTS, SYSTEM
from tests.torture_cluster.learners import CLASSES, FEATURES, ByProcessor, Processors
from tests.torture_cluster.life import Life, Tally, clean_room
from tests.torture_cluster.network import Network
from tests.torture_cluster.nodes import Cluster
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("default::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
LEASE_S = 1.0
SEEDS = count()
"""Other samples for each test: what is planted in one may be found in the next."""


@pytest.fixture(scope="module")
def cluster():
    folder = Path(tempfile.mkdtemp(prefix="ct"))  # short: it holds the sockets of Ray
    with Network(3, os.getpid() % 200 + 20) as network, Cluster(network, folder) as made:
        yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def begin(cluster, monkeypatch):
    """Return a function that makes a device with a learner, which trains a round."""
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    begun = []

    def make(learner: str, **how: str) -> Life:
        folder = Path(tempfile.mkdtemp(dir=cluster.folder))  # pytest's may be in shared memory, which is searched
        life = Life(cluster, folder, next(SEEDS), LEASE_S, Tally(), learner, faults=False, **how)
        begun.append(life)
        assert life._learn()
        return life

    yield make
    for life in begun:
        life.abandon()
    for link in cluster.network.links:
        cluster.network.mend(link)
    for link in set(cluster.network.links) - set(cluster.raylets()):  # it was cut off for so long that it ended
        cluster.start(link)


def forget_and_check(life: Life) -> list[str]:
    """Forget a user, search everything, and return the violations."""
    (call,) = life._forget([])
    call.wait(60)
    life._note(call)
    life._check()
    assert life.tally.forgets == life.tally.checks == 1
    return life.tally.violations


def test_nothing_is_reported_without_a_leak(begin):
    life = begin("Slow")
    life._driver.send(do="train").wait(120)
    assert forget_and_check(life) == []
    life._finish()
    assert life.tally.violations == []


def test_nothing_is_reported_of_whole_shards_without_a_leak(begin):
    life = begin("ByProcessor", other_environments="whole-shards")
    life._driver.send(do="train").wait(120)
    assert forget_and_check(life) == []
    life._finish()
    assert life.tally.violations == []
    assert life.tally.shards_elsewhere == 1, "one of three nodes has another environment, and so one of three shards"


def test_a_shard_with_the_bits_of_another_environment_is_reported(begin):
    life = begin("Careless", other_environments="whole-shards")
    life._finish()
    assert any("beside the clean room" in each and "other bytes" in each for each in life.tally.violations)
    assert not any("other identity" in each for each in life.tally.violations)


def test_a_shard_that_was_trained_before_other_nodes_were_there_is_compared_in_its_own_environment():
    learner, draw = ByProcessor(0.0), np.random.default_rng(1)
    x, y = draw.normal(size=(4, FEATURES)).astype(np.float32), np.arange(4) % CLASSES
    rounds = [{"bea": (x, y)}, {f"user {n}": (x + n, y) for n in range(20)}]
    device = Cause(learner=learner, system=SYSTEM, shards=SHARDS, slots=SLOTS)
    device.learn(rounds[0])
    (first,) = device.ledger.shards()
    assert first == 0, "with both environments there it would be given the other one"
    device.engine.executor = Processors()
    device.learn(rounds[1])
    assert first not in device.memory.environments
    assert len({head.environment for head in device.heads().values()}) == 2
    assert differences(device, clean_room(rounds, learner, device.memory.environments)) == []


def test_a_worker_that_outlives_its_lease_is_reported(begin, cluster):
    life = begin("Stubborn")
    life._driver.send(do="train").wait(120)
    for link in cluster.network.links:
        cluster.network.cut(link)  # else Ray ends the workers, too
    violations = forget_and_check(life)
    assert any("TrainingWorker" in each for each in violations), violations


def test_samples_in_rays_object_store_are_reported(begin):
    life = begin("Putting")
    life._driver.send(do="train").wait(120)
    violations = forget_and_check(life)
    assert any("the memory of" in each and "plasma" in each for each in violations), violations


def test_samples_in_rays_folder_are_reported(begin, cluster):
    life = begin(f"Printing:{cluster.folder / 'ray'}")
    life._driver.send(do="train").wait(120)
    violations = forget_and_check(life)
    assert any("Ray's folder" in each for each in violations), violations


def test_a_lost_request_and_other_bits_are_reported(begin):
    life = begin("Slow")
    life._driver.send(do="train").wait(120)
    assert forget_and_check(life) == []
    life._accepted.add("0" * 32)  # as if it had been accepted
    life._kept[1].pop()  # as if it had been forgotten
    life._finish()
    assert any("accepted requests are lost" in each for each in life.tally.violations)
    assert any("clean room" in each for each in life.tally.violations)


def test_a_cut_link_lets_nothing_pass_and_a_mended_one_does(cluster):
    link = cluster.network.links[0]

    def reachable() -> bool:
        return os.system(f"ping -c 1 -W 1 {link.address} >/dev/null 2>&1") == 0

    if shutil.which("ping") is None:
        pytest.skip("the command `ping` is missing")
    wait_until(reachable, 20)
    cluster.network.cut(link)
    assert not reachable()
    cluster.network.mend(link)
    wait_until(reachable, 20)
