"""Requests, predictions and repairs at the same time: answers always come, and always from clean sub-models."""

import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from cause.device.device import Cause
from cause.device.verify import verify
from tests.clean_room import differences
from tests.device.homes import MASTER, learn, opened, samples
from tests.torture.slow_learner import SlowLearner
from tests.waiting import pass_time, wait_until

X = samples("x", 1, 5)[0]


def in_thread(work):
    """Run this beside the test; what it returned or raised comes with `join`."""
    outcome = {}

    def run():
        try:
            outcome["value"] = work()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run)
    thread.start()

    def join():
        thread.join(60)
        assert not thread.is_alive()
        if "error" in outcome:
            raise outcome["error"]
        return outcome.get("value")

    return join


@pytest.mark.parametrize("workers", [None, 1], ids=["in process", "a worker"])
def test_predictions_go_on_during_a_repair_and_never_come_from_a_tainted_sub_model(scratch, workers):
    device = opened(scratch / "home", SlowLearner(0.2), shards=2, workers=workers, system="frugal:partition=hash")
    for _ in range(3):
        learn(device, a=30, b=20, c=25, d=15)
    device.forget("a", rounds=[2], count=3, repair="later")
    clean = set(device.memory.stored())
    started = time.perf_counter()
    repaired = in_thread(device.repair)
    answers = 0
    while device.waiting():
        assert len(device.predict(X)) == 5
        answers += 1
        if time.perf_counter() - started > 30:
            break
    repaired()
    assert answers >= 5
    assert clean <= set(device.memory.stored())
    assert verify(device, processes=0).mismatched == []
    device.close()


@pytest.mark.parametrize("workers", [None, 1], ids=["in process", "a worker"])
def test_an_erasure_that_hits_a_segment_in_training_is_in_effect_at_once(scratch, workers):
    learner = SlowLearner(0.01)
    device = opened(scratch / "home", learner, shards=1, workers=workers)
    learn(device, a=30, b=20)
    learn(device, a=30, b=20)
    device.engine.executor.close()  # the next worker hears that it is to be slow
    learner.seconds = 5.0
    device.forget("a", rounds=[1], count=1, repair="later")
    under_way = threading.Event()
    device.watch = lambda step: under_way.set()
    repaired = in_thread(device.repair)
    assert under_way.wait(60)
    assert device.waiting() == [0]
    training = [worker.process for worker in getattr(device.engine.executor, "_busy", [])]
    start = time.perf_counter()
    device.forget("b", rounds=[1], repair="later")
    took = time.perf_counter() - start
    assert not any(process.is_alive() for process in training), "what saw the samples goes on"
    assert len(training) == (workers or 0)
    learner.seconds = 0.01
    assert took < 2.0, f"{took:.2f} s of 10"
    assert device.ledger.rounds_of("b") == [2]
    repaired()
    assert device.waiting() == []
    plain = Cause(learner=SlowLearner(0.0), system="frugal", shards=1, slots=8)
    for _ in range(2):
        learn(plain, a=30, b=20)
    plain.forget("a", rounds=[1], count=1)
    plain.forget("b", rounds=[1])
    assert differences(device, plain) == []
    assert verify(device, processes=0).mismatched == []
    device.close()


@pytest.mark.parametrize("workers", [None, 2], ids=["in process", "workers"])
def test_a_shard_is_trained_to_its_end_while_others_are_erased_from_again_and_again(scratch, workers):
    learner = SlowLearner(0.01)
    device = opened(scratch / "home", learner, shards=2, slots=12, workers=workers, system="frugal")
    for _ in range(2):
        learn(device, a=60, b=30)
    shard = device.ledger.placement("b")
    assert shard != device.ledger.placement("a")
    device.engine.executor.close()  # the next workers hear that they are to be slow
    learner.seconds = 0.4
    device.forget("b", rounds=[1], count=2, repair="later")
    erased = 0
    repaired = in_thread(lambda: device.repair(stop=lambda: shard not in device.waiting()))
    while shard in device.waiting() and erased < 100:
        device.forget("a", rounds=[1 + erased % 2], count=1, repair="later")
        erased += 1
        pass_time(0.25)  # erasures come faster than a segment is trained
    repaired()
    assert 2 <= erased < 100, "erasures from one shard keep another from being trained"
    learner.seconds = 0.0
    device.engine.executor.close()
    device.repair()
    plain = Cause(learner=SlowLearner(0.0), system="frugal", shards=2, slots=12)
    for _ in range(2):
        learn(plain, a=60, b=30)
    plain.forget("b", rounds=[1], count=2)
    for number in range(erased):
        plain.forget("a", rounds=[1 + number % 2], count=1)
    assert differences(device, plain) == []
    assert verify(device, processes=0).mismatched == []
    device.close()


def test_an_erasure_kills_no_worker_of_another_shard(scratch):
    learner = SlowLearner(0.01)
    device = opened(scratch / "home", learner, shards=2, slots=12, workers=2, system="frugal")
    learn(device, a=20, b=20)
    a, b = device.ledger.placement("a"), device.ledger.placement("b")
    device.engine.executor.close()
    learner.seconds = 1.0
    for user in ("a", "b"):
        device.forget(user, rounds=[1], count=1, repair="later")
    repaired = in_thread(device.repair)
    executor: Any = device.engine.executor

    def both() -> dict[int, Any] | None:
        ready = {
            worker.shard.number: worker.process for worker in list(executor._busy) if worker.shard and worker.ready
        }
        return ready if len(ready) == 2 else None

    busy = wait_until(both, 60)
    device.forget("a", rounds=[1], count=1, repair="later")
    assert not busy[a].is_alive(), "what saw the samples goes on"
    assert busy[b].is_alive()
    repaired()
    assert busy[b].is_alive(), "it did not train to its end"
    assert device.waiting() == []
    assert verify(device, processes=0).mismatched == []
    device.close()


def test_requests_from_several_threads_are_all_served_each_for_samples_of_its_own(scratch):
    device = opened(scratch / "home", shards=2, system="cause-no-sc", slots=6)
    learn(device, a=60, b=60)
    learn(device, a=60, b=60)

    def ask(user):
        for round_ in (1, 2, 1, 2):
            device.forget(user, rounds=[round_], count=5, repair="later")

    threads = [in_thread(lambda user=user: ask(user)) for user in ("a", "b", "a", "b")]
    repairing = in_thread(lambda: [device.repair() for _ in range(5)])
    for join in (*threads, repairing):
        join()
    device.repair()
    assert device.ledger.lineage(0).samples + device.ledger.lineage(1).samples == 240 - 16 * 5
    assert verify(device, processes=0).mismatched == []
    assert len(device.home.database.rows("SELECT 1 FROM requests WHERE effective IS NOT NULL")) == 16
    device.close()


def test_a_repair_whose_samples_go_while_it_reads_them_starts_again(scratch):
    """Erasures come as fast as they can while a repair reads blocks that they rewrite."""
    device = opened(scratch / "home", shards=1)
    for _ in range(3):
        learn(device, a=140, b=140)
    device.forget("a", rounds=[1], count=1, repair="later")
    stop = threading.Event()

    def repairing():
        while not stop.is_set():
            device.repair()

    repaired = in_thread(repairing)
    try:
        for number in range(30):
            device.forget("ab"[number % 2], rounds=[1 + number % 3], count=1, repair="later")
    finally:
        stop.set()
    repaired()
    device.repair()
    assert device.ledger.lineage(0).samples == 3 * 280 - 31
    assert verify(device, processes=0).mismatched == []
    device.close()


READER = """
import sys, time
from cause.device.device import Cause
from tests.device.homes import samples
x = samples("x", 1, 5)[0]
device = Cause(sys.argv[1], read_only=True)
print("ready", flush=True)
answers, seen = 0, set()
for line in sys.stdin:  # what is clean from now on: the rounds that may vote
    allowed = set(map(int, line.split()))
    for _ in range(5):
        heads = None
        labels = device.predict(x)
        heads = {head.key.round for head in device.heads().values()}
        assert heads <= allowed, f"answered from {heads}, not of {allowed}"
        assert len(labels) == 5
        answers += 1
    print(answers, flush=True)
"""


def test_a_reader_in_another_process_follows_what_the_writer_forgets_and_repairs(scratch):
    device = opened(scratch / "home", shards=1)
    for _ in range(3):
        learn(device, a=30)
    reader = _reader(scratch / "home")
    assert reader.stdout.readline() == "ready\n"
    _ask(reader, "3")
    device.forget("a", rounds=[3], count=1, repair="later")
    _ask(reader, "2")  # what saw the sample is destroyed: the one before it answers
    device.forget("a", rounds=[2], count=1, repair="later")
    _ask(reader, "1")
    device.repair()
    _ask(reader, "3")
    learn(device, a=5)
    _ask(reader, "4")
    _end(reader)
    device.close()


@pytest.mark.long
def test_a_reader_that_predicts_in_a_loop_never_fails_while_the_writer_works(scratch):
    device = opened(scratch / "home", shards=2, slots=4)
    learn(device, a=30, b=30)
    reader = _reader(scratch / "home")
    assert reader.stdout.readline() == "ready\n"
    until, changes = time.perf_counter() + 4, 0
    reader.stdin.write("1 2 3 4 5 6 7 8 9\n" * 40)
    reader.stdin.flush()
    while time.perf_counter() < until and changes < 6:
        learn(device, a=10, b=10)
        device.forget("a", rounds=[device.ledger.round], count=1, repair="later")
        device.forget("b", rounds=[device.ledger.round], count=2)
        device.repair()
        changes += 1
    assert changes >= 2
    _end(reader)
    device.close()


def _reader(folder):
    return subprocess.Popen(
        [sys.executable, "-c", READER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CAUSE_TEST_KEY": MASTER},
    )  # fmt: skip


def _ask(reader, allowed):
    reader.stdin.write(allowed + "\n")
    reader.stdin.flush()
    answered = reader.stdout.readline()
    assert answered, reader.stderr.read()


def _end(reader):
    out, err = reader.communicate(timeout=60)
    assert reader.returncode == 0, err
    return np.array(out.split())
