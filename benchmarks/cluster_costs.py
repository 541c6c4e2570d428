"""What the device pays for its workers on other machines: messages, renewals, sealing, bytes, transactions.

CPU time is measured, so that other programs on the machine matter little. The workers' ends are in a process of their
own, which does what workers do to their connections.
"""

import contextlib
import multiprocessing
import os
import resource
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from cause.device.device import Cause
from cause.executors.cluster.channel import Channel, new_key
from cause.executors.cluster.listener import Listener
from cause.executors.cluster.messages import NUMBER, Kind
from cause.executors.cluster.pacing import MOST_PART
from cause.executors.cluster.remote import RemoteProcess
from cause.learners.sklearn import SklearnLearner

CONNECTIONS = 200
LEASE_S = 5.0
PARTS = 4
"""A worker asks so often within its lease."""


def all_costs() -> dict[str, float]:
    """Measure everything."""
    found: dict[str, float] = {}
    for measure in (round_trips, sealing, renewals, segments, transactions):
        print(f"{measure.__name__} …", flush=True)
        found |= measure()
    return found


@contextlib.contextmanager
def channels() -> Iterator[tuple[Channel, Channel]]:
    """Return the two ends of a channel over TCP in this process."""
    keys = new_key(), new_key()
    public = [key.public_key().public_bytes_raw() for key in keys]
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    lease = b"l" * 16
    device = Channel(near, keys[0], public[1], lease, is_device=True)
    worker = Channel(far, keys[1], public[0], lease, is_device=False)
    with contextlib.closing(device), contextlib.closing(worker):
        yield device, worker


def round_trips(count: int = 3_000) -> dict[str, float]:
    """Measure a message of eight bytes there and back, between two threads."""
    with channels() as (device, worker):

        def echo() -> None:
            for _ in range(count):
                kind, body = worker.receive()
                worker.send(kind, body)

        thread = threading.Thread(target=echo)
        thread.start()
        taken = []
        cpu = time.process_time()
        for number in range(count):
            start = time.perf_counter()
            device.send(Kind.RENEW, NUMBER.pack(number))
            device.receive()
            taken.append(time.perf_counter() - start)
        thread.join()
        cpu = time.process_time() - cpu
    return {"round_trip_median_s": statistics.median(taken), "round_trip_cpu_of_both_ends_s": cpu / count}


def sealing(megabytes: int = 256) -> dict[str, float]:
    """Measure the CPU time of sealing alone, and of sending and receiving through a channel."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealer, chunk = AESGCM(os.urandom(32)), os.urandom(MOST_PART)
    start = time.process_time()
    for number in range(megabytes):
        sealer.encrypt(number.to_bytes(12, "big"), chunk, None)
    sealed = time.process_time() - start
    body = bytes(megabytes << 20)
    with channels() as (device, worker):
        spent: dict[str, float] = {}

        def receive(name: str, channel: Channel) -> None:
            start = time.thread_time()
            channel.receive()
            spent[name] = time.thread_time() - start

        threads = [threading.Thread(target=receive, args=each) for each in (("worker", worker), ("device", device))]
        for thread in threads:
            thread.start()
        began, start = time.perf_counter(), time.thread_time()
        device.send(Kind.ASSIGNMENT, body)
        sent = time.thread_time() - start
        threads[0].join()
        taken = time.perf_counter() - began
        worker.send(Kind.READY)  # ends the thread that receives the confirmations of parts
        threads[1].join()
    size = megabytes * (1 << 20) / 1e6
    return {
        "sealing_mb_per_cpu_s": size / sealed,
        "sending_mb_per_cpu_s": size / (sent + spent["device"]),
        "receiving_mb_per_cpu_s": size / spent["worker"],
        "through_a_channel_mb_per_s": size / taken,
    }


class FakeActor:
    """Stands for Ray: the worker's end is a connection of another process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def start(self, host: str, port: int, device_key: bytes, lease: bytes, seconds: float) -> None:
        self._pipe.send((host, port, device_key, lease))

    def public_key(self) -> bytes:
        return bytes(self._pipe.recv())

    def run(self) -> None:
        self._pipe.send(None)

    def remove(self) -> None:
        pass


def fake_workers(pipe: Connection, count: int) -> None:
    """Be the worker's end of many connections: ask for renewals as often as the device says."""
    ends = []
    for _ in range(count):
        host, port, device_key, lease = pipe.recv()
        key = new_key()
        pipe.send(key.public_key().public_bytes_raw())
        pipe.recv()
        connection = socket.create_connection((host, port))
        connection.sendall(lease)
        ends.append(Channel(connection, key, device_key, lease, is_device=False))
    while (order := pipe.recv()) is not None:
        rate, seconds = order
        start, asked = time.monotonic(), 0
        while (now := time.monotonic()) < start + seconds:
            if asked < (now - start) * rate:
                end = ends[asked % count]
                end.send(Kind.RENEW, NUMBER.pack(asked))
                end.receive()
                asked += 1
            else:
                time.sleep(0.001)
        pipe.send(asked)


def renewals(seconds: float = 10.0) -> dict[str, float]:
    """Measure the CPU time, the threads and the memory of a device with many workers that only renew their leases."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=fake_workers, args=(theirs, CONNECTIONS), daemon=True)
    process.start()
    listener = Listener("127.0.0.1")
    threads, memory, descriptors = threading.active_count(), _resident(), len(list(Path("/proc/self/fd").iterdir()))
    workers = []
    for _ in range(CONNECTIONS):
        worker = RemoteProcess(FakeActor(ours), listener, 600.0, lambda environment: None)
        workers.append(worker)
        while worker._channel is None:  # one after the other: they share a pipe
            time.sleep(0.001)
    found = {
        "connections": float(CONNECTIONS),
        "threads_per_worker": (threading.active_count() - threads) / CONNECTIONS,
        "memory_per_worker_bytes": (_resident() - memory) / CONNECTIONS,
        "descriptors_per_worker": (len(list(Path("/proc/self/fd").iterdir())) - descriptors) / CONNECTIONS,
    }
    for name, rate in (("at_the_default_lease", CONNECTIONS * PARTS / LEASE_S), ("as_fast_as_it_goes", 1e9)):
        cpu, start = time.process_time(), time.monotonic()
        ours.send((rate, seconds))
        asked = ours.recv()
        found[f"renewals_per_s_{name}"] = asked / (time.monotonic() - start)
        found[f"cpu_per_renewal_{name}_s"] = (time.process_time() - cpu) / asked
    ours.send(None)
    process.terminate()
    process.join()
    listener.close()
    return found


def segments(rounds: int = 10, shards: int = 4, samples: int = 400) -> dict[str, float]:
    """Measure a home's transactions and CPU time for each segment, and the bytes between device and workers."""
    from sklearn.naive_bayes import GaussianNB

    from tests.executors.cluster.local_actor import LocalCluster

    sent = {"bytes": 0}
    write, read = Channel._write, Channel._read

    def counting_write(self: Channel, plain: bytes | bytearray | memoryview) -> None:
        sent["bytes"] += len(plain) + 16
        write(self, plain)

    def counting_read(self: Channel, size: int) -> bytes:
        sent["bytes"] += size + 16
        return read(self, size)

    os.environ["CAUSE_BENCH_KEY"] = os.urandom(32).hex()
    learner = SklearnLearner(GaussianNB(), classes=10, features=768)
    draw = np.random.default_rng(0)
    commits = trained = plain = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(LocalCluster(2, LEASE_S)) as cluster:
        settings: dict[str, Any] = {"system": "frugal:partition=hash", "shards": shards, "slots": 4 * shards}
        key = {"env": "CAUSE_BENCH_KEY"}
        with Cause(Path(folder) / "home", learner=learner, key=key, executor=cluster, **settings) as device:
            assert device.home is not None

            def count(statement: str) -> None:
                nonlocal commits
                commits += statement.startswith("COMMIT")

            for round_ in range(rounds + 1):
                uploads = {
                    f"user {round_} {n}": (
                        draw.normal(size=(samples // 4, 768)).astype(np.float32),
                        draw.integers(10, size=samples // 4),
                    )
                    for n in range(4 * shards)
                }
                device.stage_all(uploads)
                device.close_round()
                device.home.database._connection.set_trace_callback(count)
                Channel._write, Channel._read = counting_write, counting_read
                commits_before, bytes_before, cpu_before = commits, sent["bytes"], time.process_time()
                done, _ = device.catch_up()
                Channel._write, Channel._read = write, read
                device.home.database._connection.set_trace_callback(None)
                if round_ == 0:  # starts the workers
                    commits = 0
                    sent["bytes"] = 0
                    cpu = 0.0
                    continue
                trained += done
                plain += 4 * shards * (samples // 4) * 768 * 4
                cpu += time.process_time() - cpu_before
                assert commits > commits_before
                assert sent["bytes"] > bytes_before
    return {
        "segments": float(trained),
        "transactions_per_segment": commits / trained,
        "sample_bytes_per_segment": plain / trained,
        "bytes_on_the_network_per_segment": sent["bytes"] / trained,
        "cpu_of_the_device_per_segment_s": cpu / trained,
    }


def transactions(count: int = 200) -> dict[str, float]:
    """Measure a small durable transaction of a home's database, which waits for the disk."""
    from cause.device.store.database import Database

    taken = []
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "ledger.db", create=True)
        cpu = time.process_time()
        for number in range(count):
            start = time.perf_counter()
            with database.transaction():
                database.set("benchmark", number)
            taken.append(time.perf_counter() - start)
        cpu = time.process_time() - cpu
        database.close()
    return {"transaction_median_s": statistics.median(taken), "transaction_cpu_s": cpu / count}


def _resident() -> float:
    return float(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
