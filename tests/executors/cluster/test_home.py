"""Homes whose samples were sent to other machines: what an erasure waits for, and what its receipt says."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from cause.device.store.leases import Leases
from cause.errors import InputError
from tests.device.homes import MASTER, bayes, learn, opened
from tests.executors.cluster.killed_device import LEASE_S
from tests.executors.cluster.local_actor import LocalCluster
from tests.executors.cluster.test_remote import alive
from tests.executors.worker_learners import Held
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="leases need Linux")


@pytest.fixture(autouse=True)
def master_key(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)


@pytest.fixture
def cluster():
    with closing(LocalCluster(lease=2.0)) as made:
        yield made


def bodies(device):
    return device.home.receipts.listed()


def test_a_receipt_names_the_lease_and_what_is_outside_it(tmp_path, cluster):
    with opened(tmp_path / "home", executor=cluster) as device:
        learn(device, alice=20, bob=20)
        device.forget("alice", count=5, rounds=[1])
        for body in bodies(device):
            assert body["cluster"]["lease_s"] == 2.0
            assert "frozen as a whole" in body["cluster"]["outside"]
        assert [shard["cluster"] for shard in bodies(device)[0]["shards"]] == [True]
        own = device.home.receipts.bundle(0, own=True).check(device.home.receipts.verifier)
        assert own["cluster"] == bodies(device)[0]["cluster"]
        assert device.verify(0, processes=0).holds


def test_a_later_process_without_the_cluster_names_it_too(tmp_path, cluster):
    with opened(tmp_path / "home", executor=cluster) as device:
        learn(device, alice=20, bob=20)
    with opened(tmp_path / "home") as device:
        device.forget("alice", repair="later")
        (body,) = bodies(device)
    assert body["cluster"]["lease_s"] == 2.0


def test_a_receipt_of_a_device_without_a_cluster_names_none(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, alice=20, bob=20)
        device.forget("alice")
        assert all("cluster" not in body for body in bodies(device))
        assert all("cluster" not in shard for body in bodies(device) for shard in body["shards"])


def test_a_worker_of_a_killed_device_has_ended_when_the_next_process_has_forgotten(tmp_path):
    command = [sys.executable, "-m", "tests.executors.cluster.killed_device", tmp_path / "home", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        pid = int(process.stdout.readline())
        os.kill(pid, signal.SIGSTOP)  # it cannot see that its device is dead
        process.kill()
    assert alive(pid)
    started = time.monotonic()
    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        assert time.monotonic() - started < LEASE_S, "opening need not wait"
        device.forget("alice", repair="later")
        assert not alive(pid)
        assert time.monotonic() - started < LEASE_S + 2
        assert bodies(device)[0]["cluster"]["lease_s"] == LEASE_S


def test_a_request_that_was_accepted_before_the_kill_waits_for_the_workers_too(tmp_path, monkeypatch):
    command = [sys.executable, "-m", "tests.executors.cluster.killed_device", tmp_path / "home", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        pid = int(process.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        process.kill()
    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        from cause.engine.requests import Request

        device.home.accept([Request("alice")])  # and then the process ends before anything is deleted
        assert alive(pid)
    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        assert not alive(pid)
        assert [body["kind"] for body in bodies(device)] == ["effect"]


def test_an_orderly_end_leaves_nothing_to_wait_for(tmp_path, cluster, monkeypatch):
    with opened(tmp_path / "home", executor=cluster) as device:
        learn(device, alice=20, bob=20)
    with opened(tmp_path / "home") as device:
        monkeypatch.setattr(device.home.leases, "_sleep", pytest.fail)
        device.forget("alice", repair="later")


def test_no_idle_worker_holds_the_samples_when_the_receipt_is_signed(tmp_path, cluster, monkeypatch):
    with opened(tmp_path / "home", executor=cluster) as device:
        learn(device, alice=20, bob=20)
        pids = [actor.process.pid for actor in cluster.actors]
        assert cluster._idle
        seen: list[bool] = []
        issue = device.home.receipts.issue
        monkeypatch.setattr(device.home.receipts, "issue", lambda: (seen.extend(map(still_there, pids)), issue())[1])
        device.forget("alice", repair="later")
    assert seen
    assert not any(seen)


def still_there(pid):
    """Whether a worker's process is still there after the moment in which a killed one disappears."""
    try:
        wait_until(lambda: not alive(pid), 0.5)
    except AssertionError:
        return True
    return False


class Memory:
    """The table `meta`, in memory."""

    def __init__(self):
        self.rows = {}

    def get(self, name):
        return self.rows.get(name)

    def set(self, name, value):
        self.rows[name] = value

    def transaction(self):
        return closing(self)

    def close(self):
        pass


def test_only_an_erasure_of_a_shard_that_was_sent_waits_and_by_this_machines_counter_alone():
    table, now, slept = Memory(), [100.0], []

    def opening(read_only=False):
        return Leases(table, read_only=read_only, counter=lambda: now[0], sleep=slept.append)

    first = opening()
    first.wait([1])
    first.sending(1, 5.0)
    first.wait([1])  # its own workers are ended by its executor
    now[0] = 3.0  # the machine was started again: its counter began anew
    second = opening()
    now[0] += 1.0
    second.wait([0])
    assert slept == []
    second.wait([0, 1])
    assert slept == [pytest.approx(5.35 - 1.0)]
    second.ended()  # too early to know that the workers of the first have ended
    third = opening()
    now[0] += 6.0
    third.wait([1])
    assert slept[1:] == [0.0]
    third.ended()
    opening().wait([1])
    assert len(slept) == 2
    assert (opening().longest(), opening().was_sent(1), opening().was_sent(0)) == (5.0, True, False)


def test_a_home_that_is_only_read_sends_nothing():
    with pytest.raises(InputError, match="open it for writing"):
        Leases(Memory(), read_only=True).sending(0, 5.0)


def test_bits_of_a_home_are_those_without_a_cluster(tmp_path, cluster):
    found = []
    for name, executor in (("spread", cluster), ("plain", None)):
        with opened(tmp_path / name, bayes(), executor=executor, seed=3) as device:
            learn(device, alice=20, bob=20, carol=7)
            device.forget("carol")
            assert device.verify(processes=0).mismatched == []
            found.append({shard: device.home.shelf.get(head.key) for shard, head in device.heads().items()})
    assert found[0] == found[1]
