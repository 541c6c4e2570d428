"""Workers behind a sealed connection and a lease. Ray only places them; here they are processes of this machine."""

import os
import signal
import socket
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from cause.engine.executor import ShardError
from cause.errors import Cancelled, LearnerError, PassingError
from cause.executors.cluster.remote import RemoteProcess
from cause.learners import CountingLearner
from tests.executors.cluster.local_actor import LocalActor, LocalCluster
from tests.executors.test_processes import shard_work
from tests.executors.worker_learners import Endless, Held, Killed, Raising, Unloadable
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="leases need Linux")

NOBODY_LISTENS = lambda *_: None  # noqa: E731


@pytest.fixture
def cluster():
    with closing(LocalCluster()) as made:
        made.environment = CountingLearner().environment
        yield made


def training(cluster, learner, work):
    """Train in a thread until a worker has begun; return the thread and where its results go."""
    got: list[bytes | None] = []
    began = threading.Event()

    def train() -> None:
        got.extend(cluster.train(learner, work, lambda *_: began.set()))

    thread = threading.Thread(target=train)
    thread.start()
    assert began.wait(60)
    return thread, got


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # before the file is opened, or before it is read
        return False


def test_results_are_those_of_one_process(cluster):
    assert list(cluster.train(CountingLearner(), shard_work(0, 1, 2), NOBODY_LISTENS)) == [b"9", b"10", b"11"]
    assert list(cluster.train(CountingLearner(), shard_work(3), NOBODY_LISTENS)) == [b"12"]
    assert len(cluster.actors) == 1, "a worker stays for the next call"


def test_a_lease_counts_from_the_last_answer():
    """A worker that was cut off lives on for as long, and an erasure waits for that."""
    with closing(LocalCluster(lease=1.0)) as cluster:
        cluster.environment = CountingLearner().environment
        list(cluster.train(CountingLearner(), shard_work(0), NOBODY_LISTENS))
        ((process, first),) = [
            (worker.process, worker.process._answered_at)
            for worker in cluster._idle
            if isinstance(worker.process, RemoteProcess)
        ]
        assert first is not None
        wait_until(lambda: (process._answered_at or 0.0) > first, 10)


def test_a_worker_that_is_killed_is_replaced(cluster, tmp_path):
    (tmp_path / "once").touch()
    cluster.environment = Killed(tmp_path).environment
    assert list(cluster.train(Killed(tmp_path), shard_work(0, 1), NOBODY_LISTENS)) == [b"9", b"10"]
    assert len(cluster.actors) == 2


def test_a_forgotten_shards_worker_has_ended_when_cancel_returns(cluster):
    forgotten: list[int] = []
    thread, got = training(cluster, Endless(), shard_work(0, forgotten=forgotten))
    pid = cluster.actors[0].process.pid
    forgotten.append(0)
    started = time.monotonic()
    cluster.cancel([0])
    assert time.monotonic() - started < cluster.lease, "it confirmed, nobody had to wait for the lease"
    wait_until(lambda: not alive(pid), 1)
    thread.join()
    assert got == [None]


def test_a_stopped_worker_has_ended_when_cancel_returns(cluster):
    forgotten: list[int] = []
    thread, got = training(cluster, Endless(), shard_work(0, forgotten=forgotten))
    pid = cluster.actors[0].process.pid
    os.kill(pid, signal.SIGSTOP)
    forgotten.append(0)
    started = time.monotonic()
    cluster.cancel([0])
    assert time.monotonic() - started < cluster.lease + 1.5
    wait_until(lambda: not alive(pid), 1)  # its timer has ended; a busy machine takes a while to free its memory
    thread.join()
    assert got == [None]


@pytest.mark.parametrize("call", ["remove", "public_key"])
def test_nobody_waits_for_a_cluster_that_does_not_answer(cluster, monkeypatch, call):
    """As Ray may do about a node that died."""
    answers = threading.Event()
    if call == "remove":
        thread = threading.Thread(target=train_until_cancelled, args=(cluster, Endless()))
        thread.start()
        wait_until(lambda: any(worker.ready for worker in cluster._busy))
        monkeypatch.setattr(LocalActor, call, lambda actor: answers.wait(60))
    else:
        monkeypatch.setattr(LocalActor, call, lambda actor: answers.wait(60) and b"")
        thread = threading.Thread(target=train_until_cancelled, args=(cluster,))
        thread.start()
        wait_until(lambda: cluster._busy)
    try:
        started = time.monotonic()
        cluster.cancel()
        assert time.monotonic() - started < cluster.lease + 3
    finally:
        answers.set()
        thread.join()


def test_a_shard_does_not_wait_for_a_worker_that_finds_no_room(cluster, monkeypatch):
    cluster.workers, room, place = 2, threading.Event(), LocalActor.public_key
    monkeypatch.setattr(
        LocalActor, "public_key", lambda actor: place(actor) if actor is cluster.actors[0] else room.wait(60) and b""
    )
    got: list[bytes | None] = []
    work = shard_work(0, 1, 2)
    thread = threading.Thread(target=lambda: got.extend(cluster.train(CountingLearner(), work, NOBODY_LISTENS)))
    thread.start()
    try:
        wait_until(lambda: len(got) == 3, 45)
    finally:
        room.set()
        thread.join()
    assert got == [b"9", b"10", b"11"]


def train_until_cancelled(cluster, learner=CountingLearner()):  # noqa: B008
    with pytest.raises(Cancelled):
        list(cluster.train(learner, shard_work(0), NOBODY_LISTENS))


def test_a_worker_that_hears_nothing_from_the_device_ends_itself(cluster, monkeypatch):
    forgotten: list[int] = []
    thread, _ = training(cluster, Endless(), shard_work(0, forgotten=forgotten))
    (worker,) = cluster._busy
    pid = cluster.actors[0].process.pid
    monkeypatch.setattr(worker.process, "_renew", lambda question: None)  # as if all answers were lost
    wait_until(lambda: not alive(pid), cluster.lease + 3)
    forgotten.append(0)
    cluster.cancel([0])
    thread.join()


def test_a_worker_ends_with_the_device_it_belongs_to(cluster):
    forgotten: list[int] = []
    thread, _ = training(cluster, Endless(), shard_work(0, forgotten=forgotten))
    (worker,) = cluster._busy
    pid = cluster.actors[0].process.pid
    worker.process._channel.shut()  # as the kernel does for a process that was killed
    wait_until(lambda: not alive(pid), 2)
    forgotten.append(0)
    cluster.cancel([0])
    thread.join()


def test_what_a_worker_sends_after_its_lease_was_revoked_is_refused(cluster, tmp_path):
    forgotten: list[int] = []
    cluster.environment = Held(tmp_path).environment
    got: list[bytes | None] = []
    work = shard_work(0, forgotten=forgotten)
    thread = threading.Thread(target=lambda: got.extend(cluster.train(Held(tmp_path), work, NOBODY_LISTENS)))
    thread.start()
    wait_until(lambda: any(worker.ready for worker in cluster._busy))
    (worker,) = cluster._busy
    worker.process._revoked = True  # the worker was not told yet
    forgotten.append(0)
    (tmp_path / "0").touch()
    cluster.cancel([0])
    thread.join(30)
    assert got == [None]


def test_a_worker_of_another_environment_does_not_train(cluster):
    cluster.environment = "another one"
    forgotten: list[int] = []
    work = shard_work(0, forgotten=forgotten)
    thread = threading.Thread(target=lambda: list(cluster.train(CountingLearner(), work, NOBODY_LISTENS)))
    thread.start()
    wait_until(lambda: cluster.refusals)
    forgotten.append(0)
    cluster.cancel([0])
    thread.join()
    assert cluster.refusals[0] == CountingLearner().environment


def test_a_learners_error_arrives_in_words(cluster):
    cluster.environment = Raising().environment
    with pytest.raises(ShardError, match="no such thing") as raised:
        list(cluster.train(Raising(), shard_work(0), NOBODY_LISTENS))
    assert isinstance(raised.value.cause, LearnerError)


def test_a_stranger_who_connects_gets_nothing(cluster):
    assert list(cluster.train(CountingLearner(), shard_work(0), NOBODY_LISTENS)) == [b"9"]
    (worker,) = cluster._idle
    for introduction in (b"", b"x" * 16, worker.process._lease):
        with socket.create_connection(("127.0.0.1", cluster._listener.port), 5) as stranger:
            stranger.settimeout(10)
            stranger.sendall(introduction)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
    assert list(cluster.train(CountingLearner(), shard_work(1), NOBODY_LISTENS)) == [b"10"]


def test_a_learner_that_a_node_cannot_load_is_named_and_no_fault_of_the_samples(cluster):
    cluster.environment = Unloadable().environment
    with pytest.raises(ShardError) as error:
        list(cluster.train(Unloadable(), shard_work(0), NOBODY_LISTENS))
    assert isinstance(error.value.cause, PassingError)
    assert "cannot load the learner: ModuleNotFoundError: No module named 'only_here'" in str(error.value.cause)


def test_idle_workers_end_so_that_others_get_their_room(cluster, monkeypatch):
    monkeypatch.setattr("cause.executors.cluster.leased_pool.IDLE_S", 0.3)
    learner = CountingLearner()
    for _ in range(2):  # the second training begins while they wait, and uses them
        assert len(list(cluster.train(learner, shard_work(0), NOBODY_LISTENS))) == 1
    (actor,) = cluster.actors
    wait_until(lambda: not alive(actor.process.pid), 5)
    assert len(list(cluster.train(learner, shard_work(0), NOBODY_LISTENS))) == 1
