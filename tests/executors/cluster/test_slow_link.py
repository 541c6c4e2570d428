"""Samples and sub-models that travel for longer than a lease: it is renewed meanwhile, or ends the worker."""

import sys
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from cause.engine.arrays import ArrayUpload
from cause.engine.executor import ShardWork, Task
from cause.engine.samples import Lesson, Piece, SegmentKey
from tests.device.homes import MASTER
from tests.executors.cluster.slow_link import SlowCluster
from tests.executors.cluster.test_remote import alive
from tests.executors.cluster.travel_probe import ROW
from tests.executors.worker_learners import Echoing, Endless
from tests.probed_process import Probe, left_after, report
from tests.process_memory import Needles, readable, search
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="leases need Linux")
MB = 1_000_000


def work(size: float, forgotten: list[int]) -> tuple[list[ShardWork], np.ndarray]:
    """Return a shard of one segment with so many bytes of samples, and the samples."""
    x = np.random.default_rng(0).integers(0, 256, size=(8, int(size) // 8), dtype=np.uint8)
    upload = ArrayUpload("ann", 1, x, np.zeros(8, dtype=np.int64))
    lesson = Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), 8)
    return [ShardWork(0, lambda: None, (Task(lesson, b"seed"),), lambda: not forgotten)], x


@pytest.mark.parametrize(
    ("size", "rate", "lease"),
    [(0.6 * MB, 0.3 * MB, 1.0), pytest.param(6 * MB, 1 * MB, 2.0, marks=pytest.mark.long)],
    ids=["0.6 MB", "6 MB"],
)
def test_samples_and_sub_models_may_travel_for_longer_than_a_lease(size, rate, lease):
    """The sub-model that comes back is as large as the samples."""
    shards, x = work(size, [])
    with closing(SlowCluster(rate, lease)) as cluster:
        cluster.environment = Echoing().environment
        began = time.monotonic()
        (blob,) = cluster.train(Echoing(), shards, lambda *_: None)
        assert time.monotonic() - began > 2 * size / rate > 2 * lease, "the link was not slow"
        assert len(cluster.actors) == 1, "the worker ended on the way, and another one was tried"
    rows = np.frombuffer(blob, dtype=np.uint8).reshape(x.shape)  # a learner gets them in an order of its own
    assert {row.tobytes() for row in rows} == {row.tobytes() for row in x}


@pytest.mark.parametrize("learner", [Endless(), pytest.param(Echoing(), marks=pytest.mark.long)])
def test_a_forget_while_samples_or_a_sub_model_travel_ends_the_worker(learner):
    """`Endless` never returns, so its samples are on their way; of `Echoing` it is the sub-model."""
    size, rate, forgotten = 2 * MB, 0.4 * MB, list[int]()
    shards, _ = work(size, forgotten)
    with closing(SlowCluster(rate, 2.0)) as cluster:
        cluster.environment = learner.environment
        got: list[bytes | None] = []
        thread = threading.Thread(target=lambda: got.extend(cluster.train(learner, shards, lambda *_: None)))
        thread.start()
        part = 0.2 if isinstance(learner, Endless) else 1.2
        wait_until(lambda: cluster.link.passed > part * size, 30)
        pid, passed = cluster.actors[0].process.pid, cluster.link.passed
        forgotten.append(0)
        began = time.monotonic()
        cluster.cancel([0])
        took = time.monotonic() - began
        assert took < 1.0, f"the order to end waited for {took:.1f} s behind what was being sent"
        wait_until(lambda: not alive(pid), 1)
        assert cluster.link.passed - passed < 0.5 * size, "the rest was sent all the same"
        thread.join()
    assert got == [None]


def test_a_link_that_breaks_while_samples_travel_ends_the_worker_with_its_lease():
    size, rate, lease, forgotten = 2 * MB, 0.8 * MB, 1.0, list[int]()
    shards, _ = work(size, forgotten)
    with closing(SlowCluster(rate, lease)) as cluster:
        cluster.environment = Endless().environment
        thread = threading.Thread(target=lambda: list(cluster.train(Endless(), shards, lambda *_: None)))
        thread.start()
        wait_until(lambda: cluster.link.passed > 0.2 * size, 30)
        pid = cluster.actors[0].process.pid
        cluster.link.cut.set()
        began = time.monotonic()
        wait_until(lambda: not alive(pid), lease + 1)
        forgotten.append(0)
        cluster.cancel([0])
        assert time.monotonic() - began < lease + 2, "the device waits for a worker that has ended"
        thread.join()


@pytest.mark.skipif(not readable(), reason="the memory of processes cannot be read here (/proc/PID/mem)")
@pytest.mark.parametrize("part", [0.2, pytest.param(1.2, marks=pytest.mark.long)], ids=["samples", "sub-model"])
def test_no_sample_that_travelled_is_left_in_memory_after_a_forget(tmp_path, monkeypatch, part):
    """Neither in the device, which was sending or receiving, nor in the worker."""
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    x = np.random.default_rng(0).integers(0, 256, size=(128, ROW), dtype=np.uint8)
    x.tofile(tmp_path / "rows")
    pieces = {f"row {i} at {at}": row[at : at + 256].tobytes() for i, row in enumerate(x) for at in (0, 8_000, 15_744)}
    with Probe("tests.executors.cluster.travel_probe", tmp_path, part) as probe:
        probe.wait_for("travelling")
        assert search(probe.process.pid, [Needles(pieces)]), "the search finds nothing, although samples travel"
        probe.go_on()
        probe.wait_for("forgot")
        hits = left_after(probe.process.pid, [Needles(pieces)])
        assert not hits, report(hits)
        probe.go_on()
