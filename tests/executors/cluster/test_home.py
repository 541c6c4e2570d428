"""Homes whose samples were sent to other machines: what an erasure waits for, and what its receipt says."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from cause.device.home.check_rows import row_problems
from cause.device.home.home import Home
from cause.device.store.leases import LEASES, Leases
from cause.engine.journal import Journal
from cause.engine.requests import Request
from cause.engine.training import Training
from cause.errors import ChangedError, HomeError, InputError
from cause.executors.cluster.leased_pool import LeasedPool
from cause.executors.pool import WorkerPool
from cause.service.events import Events
from cause.service.journal import PublishingJournal
from cause.service.verifications import Verifications
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


def stopped_worker(tmp_path):
    """Kill a device while its only worker is stopped, so that the worker cannot notice; return the worker's number."""
    command = [sys.executable, "-m", "tests.executors.cluster.killed_device", tmp_path / "home", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        pid = int(process.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        process.kill()
    assert alive(pid)
    return pid


def test_a_worker_of_a_killed_device_has_ended_when_the_next_process_has_forgotten(tmp_path):
    pid = stopped_worker(tmp_path)
    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        started = time.monotonic()
        device.forget("alice", repair="later")
        assert not alive(pid)
        assert time.monotonic() - started < LEASE_S + 2
        assert bodies(device)[0]["cluster"]["lease_s"] == LEASE_S


def test_red_when_an_erasure_does_not_wait_for_the_workers_of_a_killed_device(tmp_path, monkeypatch):
    monkeypatch.setattr(Home, "await_workers", lambda home, shards: None)
    pid = stopped_worker(tmp_path)
    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        device.forget("alice", repair="later")
        assert alive(pid)


def test_a_request_that_was_accepted_before_a_kill_waits_for_the_workers_too(tmp_path):
    pid = stopped_worker(tmp_path)
    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        device.home.accept([Request("alice")])  # and then the process ends before anything is deleted
    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        assert not alive(pid)
        assert [body["kind"] for body in bodies(device)] == ["effect"]


def test_an_orderly_end_leaves_nothing_to_wait_for(tmp_path, cluster, monkeypatch):
    with opened(tmp_path / "home", executor=cluster) as device:
        learn(device, alice=20, bob=20)
    with opened(tmp_path / "home") as device:
        monkeypatch.setattr(device.home.leases, "_sleep", pytest.fail)
        device.forget("alice", repair="later")


def workers_at_receipt(tmp_path, cluster, monkeypatch):
    """Forget a sample of an idle worker; return which workers are there when the receipt is signed."""
    with opened(tmp_path / "home", executor=cluster) as device:
        learn(device, alice=20, bob=20)
        pids = [actor.process.pid for actor in cluster.actors]
        assert cluster._idle
        seen: list[bool] = []
        issue = device.home.receipts.issue
        monkeypatch.setattr(device.home.receipts, "issue", lambda: (seen.extend(map(still_there, pids)), issue())[1])
        device.forget("alice", repair="later")
    assert seen
    return seen


def test_no_idle_worker_holds_the_samples_when_the_receipt_is_signed(tmp_path, cluster, monkeypatch):
    assert not any(workers_at_receipt(tmp_path, cluster, monkeypatch))


def test_red_when_idle_workers_end_after_the_receipt(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(LeasedPool, "cancel", WorkerPool.cancel)
    assert all(workers_at_receipt(tmp_path, cluster, monkeypatch))


def still_there(pid):
    """Whether a worker's process is still there after the moment in which a killed one disappears."""
    try:
        wait_until(lambda: not alive(pid), 0.5)
    except AssertionError:
        return True
    return False


@pytest.fixture
def home(tmp_path):
    with opened(tmp_path / "home") as device:
        yield device.home


def test_only_an_erasure_of_a_shard_that_was_sent_waits_and_by_this_machines_counter_alone(home):
    now, slept = [100.0], list[float]()

    def opening():
        return Leases(home.database, read_only=False, counter=lambda: now[0], sleep=slept.append)

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


def test_the_longest_lease_of_each_shard_counts(home):
    slept = list[float]()

    def opening():
        return Leases(home.database, read_only=False, counter=lambda: 0.0, sleep=slept.append)

    first = opening()
    for shard, seconds in ((0, 2.0), (0, 5.0), (0, 3.0), (1, 2.0)):
        first.sending(shard, seconds)
    for shards in ([0], [1], [0, 1], [1, 0]):
        opening().wait(shards)
    assert slept == [pytest.approx(5.35), pytest.approx(2.29), pytest.approx(5.35), pytest.approx(5.35)]


def test_a_damaged_record_is_named(home):
    with home.database.transaction():
        home.database.set(LEASES, '{"sent": [[0]]}')
    with pytest.raises(HomeError, match="leases is damaged"):
        Leases(home.database, read_only=False).wait([0])
    assert any("leases" in problem for problem in row_problems(home.database, home.vault))


def verified(device, **where):
    report = device.verify(**where)
    return report.identical, report.mismatched, report.unverifiable


def test_a_replay_on_a_cluster_finds_what_one_in_this_process_finds(tmp_path, cluster, monkeypatch):
    with opened(tmp_path / "home") as device:
        for _ in range(3):
            learn(device, alice=20, bob=20, carol=10)
        device.forget("carol", rounds=[2])
        plain = verified(device, processes=0)
        assert verified(device, executor=cluster) == plain
        assert len(plain[0]) > 2
        assert cluster._idle == []
        wait_until(lambda: not any(alive(actor.process.pid) for actor in cluster.actors), 2)
        first, last = min(plain[0]), max(plain[0])
        training = device.engine.training
        assert isinstance(training, Training)
        stored = training._stored

        def changed(sub_model):
            environment, blob = stored(sub_model)
            return ("another one" if sub_model.key == first else environment), blob[: -(sub_model.key == last) or None]

        monkeypatch.setattr(training, "_stored", changed)
        plain = verified(device, processes=0)
        assert (plain[1], plain[2]) == ([last], [first])
        assert verified(device, executor=cluster) == plain


def test_a_forget_ends_the_workers_of_a_replay(tmp_path, cluster):
    (tmp_path / "0").touch()
    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        learn(device, alice=20, bob=20)
        (tmp_path / "0").unlink()
        failed: list[BaseException] = []

        def verify():
            try:
                device.verify(executor=cluster)
            except ChangedError as error:
                failed.append(error)

        thread = threading.Thread(target=verify)
        thread.start()
        wait_until(lambda: any(worker.ready and worker.seen for worker in cluster._busy))
        pid = cluster.actors[0].process.pid
        device.forget("alice", repair="later")
        wait_until(lambda: not alive(pid), 1)
        thread.join(30)
        assert failed
        assert bodies(device)[0]["cluster"]["lease_s"] == 2.0


def test_a_home_that_is_only_read_sends_nothing(tmp_path, cluster):
    with opened(tmp_path / "home") as device:
        learn(device, alice=20, bob=20)
        with (
            opened(tmp_path / "home", read_only=True) as reader,
            pytest.raises(InputError, match="open it for writing"),
        ):
            reader.verify(executor=cluster)
        assert all(not worker.seen for worker in cluster._idle)


def test_the_executor_that_trains_does_not_verify(tmp_path, cluster):
    with opened(tmp_path / "home", executor=cluster) as device, pytest.raises(InputError, match="another one"):
        device.verify(executor=cluster)


def test_a_services_journal_hands_everything_on_that_a_home_records():
    recorded = {name for name in vars(Journal) if not name.startswith("_") and name in vars(Home)}
    assert "sending" in recorded
    assert recorded <= set(vars(PublishingJournal))


def test_bits_of_a_home_are_those_without_a_cluster(tmp_path, cluster):
    found = []
    for name, executor in (("spread", cluster), ("plain", None)):
        with opened(tmp_path / name, bayes(), executor=executor, seed=3) as device:
            learn(device, alice=20, bob=20, carol=7)
            device.forget("carol")
            assert device.verify(processes=0).mismatched == []
            found.append({shard: device.home.shelf.get(head.key) for shard, head in device.heads().items()})
    assert found[0] == found[1]


def test_a_service_verifies_on_its_cluster_and_a_stop_ends_the_workers(tmp_path):
    (tmp_path / "0").touch()
    clusters: list[LocalCluster] = []

    def cluster():
        clusters.append(LocalCluster(lease=2.0))
        return clusters[-1]

    with opened(tmp_path / "home", Held(tmp_path), shards=1) as device:
        learn(device, alice=20, bob=20)
        verifications = Verifications(device, Events(0), 1, cluster)
        done = verifications.start(None)
        wait_until(lambda: verifications.get(done.id).state != "running")
        assert (verifications.get(done.id).state, verifications.get(done.id).identical) == ("holds", 1)
        assert not any(still_there(actor.process.pid) for actor in clusters[0].actors)
        (tmp_path / "0").unlink()
        verifications.start(None)
        wait_until(lambda: len(clusters) == 2 and any(worker.seen for worker in clusters[1]._busy))
        verifications.close()
        assert not any(still_there(actor.process.pid) for actor in clusters[1].actors)
