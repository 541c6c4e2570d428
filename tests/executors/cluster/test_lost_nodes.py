"""Nodes that vanish: nobody waits for them longer than a lease."""

import math
import socket
import sys
import threading
import time
from contextlib import closing

import pytest

from cause.executors.cluster.channel import Channel, new_key
from cause.executors.cluster.executor import RayActor, StartLimit
from cause.executors.cluster.listener import Listener
from cause.executors.cluster.messages import NUMBER, Kind
from cause.executors.cluster.remote import RemoteProcess
from cause.learners import CountingLearner
from tests.executors.cluster.local_actor import LocalActor, LocalCluster
from tests.executors.test_processes import shard_work
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="leases need Linux")
LEASE_S = 1.0


class SilentWorker:
    """A worker that connects, asks once for a renewal, and is never heard of again; its connection stays open."""

    def __init__(self) -> None:
        self._key, self.connection = new_key(), socket.socket()

    def start(self, host, port, device_key, lease, seconds) -> None:
        self._address, self._device_key, self._lease = (host, port), device_key, lease

    def public_key(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def run(self) -> None:
        self.connection.connect(self._address)
        self.connection.sendall(self._lease)
        self._channel = Channel(self.connection, self._key, self._device_key, self._lease, is_device=False)
        self._channel.send(Kind.RENEW, NUMBER.pack(0))

    def ask_on(self) -> None:
        """Ask for one more renewal."""
        self._channel.send(Kind.RENEW, NUMBER.pack(1))

    def remove(self) -> None:
        pass


def test_a_worker_that_is_not_heard_of_has_ended_for_the_device_after_its_lease():
    actor = SilentWorker()
    with closing(Listener("127.0.0.1")) as listener, closing(actor.connection):
        process = RemoteProcess(actor, listener, LEASE_S, lambda environment: None)
        wait_until(lambda: process._channel is not None)
        began = time.monotonic()
        wait_until(lambda: process.has_ended, 10)
        assert time.monotonic() - began > LEASE_S / 2, "it may live so long"
        with process.pipe, pytest.raises(EOFError):
            process.pipe.recv_bytes()  # the pool tries the segment on another worker


class NeverPlaced(LocalActor):
    """An actor that Ray never places: its node was lost meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.placed = threading.Event()

    def start(self, *arguments: object) -> None:
        pass

    def public_key(self) -> bytes:
        self.placed.wait()
        raise ConnectionError


class LostCluster(LocalCluster):
    """Its first worker is never placed."""

    def _actor(self) -> LocalActor:
        return LocalActor() if self.actors else NeverPlaced()


def test_an_erasure_does_not_wait_for_a_worker_that_never_started():
    forgotten: list[int] = []
    with closing(LostCluster(lease=LEASE_S)) as cluster:
        cluster.environment = CountingLearner().environment
        got: list[bytes | None] = []
        work = shard_work(0, forgotten=forgotten)
        thread = threading.Thread(
            target=lambda: got.extend(cluster.train(CountingLearner(), work, lambda *_: None)), daemon=True
        )
        thread.start()
        wait_until(lambda: cluster._busy)
        forgotten.append(0)
        cancelled = threading.Thread(target=cluster.cancel, args=([0],), daemon=True)
        cancelled.start()
        cancelled.join(10)
        late = cancelled.is_alive()
        thread.join(10)
        cluster.actors[0].placed.set()  # type: ignore[attr-defined]
        assert not late, "the erasure waits for Ray"
        assert got == [None]


def test_a_worker_that_reads_nothing_has_ended_for_the_device_after_its_lease():
    actor = SilentWorker()
    with closing(Listener("127.0.0.1")) as listener, closing(actor.connection):
        process = RemoteProcess(actor, listener, LEASE_S, lambda environment: None)
        wait_until(lambda: process._channel is not None)
        process.post(bytes(100 << 20))
        wait_until(lambda: process._channel._sending_large.locked())
        actor.ask_on()
        wait_until(lambda: process.has_ended, 20, "the device waits for a worker that never reads")
        process.pipe.close()


class SlowRay:
    """A process of Ray that takes so many seconds for a start; after a cut link it was seen to take forever."""

    address = "local"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def next_number(self) -> int:
        return 0

    def process(self) -> "SlowRay":
        return self

    def call(self, name, longest=None, *, timeout=None, **arguments):
        if name == "start":
            return None
        assert timeout is not None, "it would wait forever"
        if timeout < self.seconds:
            raise TimeoutError
        return ("the only node", "127.0.0.1") if name == "placed" else b"key".hex()


def start(seconds: float, limit: StartLimit) -> bytes:
    """Start a worker that takes so long."""
    actor = RayActor(SlowRay(seconds), {}, {}, limit)  # type: ignore[arg-type]
    actor.start("127.0.0.1", 1, b"", b"", 2.0)
    return actor.public_key()


def test_nobody_waits_forever_for_an_actor_that_ray_has_lost():
    limit, limits = StartLimit(), []
    for _ in range(6):
        limits.append(limit.seconds)
        with pytest.raises(TimeoutError):
            start(math.inf, limit)
    assert limits == [60, 120, 240, 480, 600, 600]


def test_a_start_that_takes_minutes_is_not_given_up_again_and_again():
    limit = StartLimit()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            start(200, limit)
    assert start(200, limit) == b"key"
    assert limit.seconds == 60, "the next start may be lost again, and that should be noticed soon"
