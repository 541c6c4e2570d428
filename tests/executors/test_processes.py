"""Worker processes give the same bits as a single process, also when workers die or are cancelled."""

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import textwrap
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.executor import ShardError, ShardWork, Task
from cause.engine.presets import FIXED, PRESETS, System
from cause.engine.samples import Lesson, Part, Piece, SegmentKey, TraceUpload
from cause.errors import Cancelled, InputError, LearnerError
from cause.executors import InProcess, Processes, wire
from cause.executors.worker import Assignment, Ready, Trained, work
from cause.learners import CountingLearner
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from tests.clean_room import clean_room, differences, live
from tests.executors.torch_worker_learners import Dying, Noting, with_frozen_backbone
from tests.executors.worker_learners import (
    CIRCLES,
    Circular,
    Fussy,
    Held,
    Killed,
    Large,
    OnGpu,
    Raising,
    Viewing,
)
from tests.learners.test_torch import CLASSES, SCENE, SHAPE, learner, with_data
from tests.quick import quick_only
from tests.waiting import wait_until

PLAIN = System(gamma=FIXED, pruning="none")
RECIPE = Recipe("mlp", CLASSES, SHAPE, (("width", 8),), epochs=2, batch_size=4)


@pytest.fixture(scope="module")
def two():
    executor = Processes(2)
    yield executor
    executor.close()


def pids(executor) -> list[int]:
    return [worker.process.pid for worker in executor._idle]


@pytest.mark.parametrize("name", quick_only(["cause", "frugal", "sisa", "omp-70"], ["cause"]))
def test_two_workers_give_the_bits_and_the_memory_of_none(two, name):
    system = PRESETS[name]
    recipe = Recipe("cnn", CLASSES, SHAPE, (("width", 16),), epochs=2, batch_size=4, round_to=2).composed(system)
    fits = {"shards": 3, "slots": 12, "data": with_data}
    here = live(SCENE, system, learner=TorchLearner(recipe), **fits)
    there = live(SCENE, system, learner=TorchLearner(recipe), executor=two, **fits)
    assert differences(here.device, there.device) == []
    assert here.device.memory.stored() == there.device.memory.stored()
    assert here.rsn_per_round == there.rsn_per_round


def test_frozen_parts_travel_to_the_workers(two):
    recipe = Recipe(
        "tests.executors.torch_worker_learners:with_frozen_backbone", CLASSES, SHAPE, epochs=2, batch_size=4
    )
    fits = {"shards": 2, "slots": 12, "data": with_data}
    room = live(SCENE, PLAIN, learner=TorchLearner(recipe), executor=two, **fits)
    clean = clean_room(room, SCENE, PLAIN, learner=TorchLearner(recipe), slots=12, data=with_data)
    assert differences(room.device, clean) == []


def test_workers_stay_warm(two):
    seen = []
    for seed in (1, 2):
        fits = {"shards": 2, "slots": 12, "data": with_data, "seed": seed}
        live(SCENE, PLAIN, learner=learner("mlp"), executor=two, **fits)
        seen.append(set(pids(two)))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2


def test_a_worker_that_dies_is_replaced_and_its_segment_trained_again_with_the_same_bits(two, tmp_path):
    for life in range(2):
        (tmp_path / str(life)).touch()
    fits = {"shards": 2, "slots": 12, "data": with_data}
    room = live(SCENE, PLAIN, learner=Dying(RECIPE, tmp_path), executor=two, **fits)
    assert list(tmp_path.iterdir()) == []  # every death was died
    plain = live(SCENE, PLAIN, learner=TorchLearner(RECIPE), **fits)
    assert differences(room.device, plain.device) == []


def test_an_idle_worker_that_was_killed_is_replaced(two):
    work, learner = shard_work(0, 1), CountingLearner()
    assert list(two.train(learner, work, lambda *_: None)) == [b"9", b"10"]
    killed = pids(two)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert list(two.train(learner, work, lambda *_: None)) == [b"9", b"10"]
    assert not set(pids(two)) & set(killed)


def test_a_worker_that_dies_each_time_is_an_error_and_repair_goes_on(two, tmp_path):
    device = Cause(learner=Killed(tmp_path), system=PLAIN, shards=1, slots=12, executor=two)
    for life in range(5):
        (tmp_path / str(life)).touch()
    uploads = SCENE.rounds[0].uploads()
    with pytest.raises(LearnerError, match=r"a worker died 3 times over segment \(\d,1\) \(exit code -9\)"):
        device.learn(uploads)
    for life in tmp_path.iterdir():
        life.unlink()
    device.repair()
    assert len(verify(device, processes=0).identical) == len(device.memory)


def test_what_a_learner_raises_in_a_worker_arrives(two):
    device = Cause(learner=Raising(), system=PLAIN, shards=2, slots=12, executor=two)
    with pytest.raises(LearnerError, match="training failed in a worker: Local: no such thing"):
        device.learn(SCENE.rounds[0].uploads())


def test_a_learner_that_cannot_travel_is_refused_in_one_line(two):
    local = TorchLearner(RECIPE, make=lambda classes, shape, width: with_frozen_backbone(classes, shape))
    device = Cause(learner=local, system=PLAIN, shards=2, slots=12, classes=CLASSES, executor=two)
    with pytest.raises(InputError, match="cannot be sent to a worker process"):
        device.learn([with_data(upload) for upload in SCENE.rounds[0].uploads()])


def test_progress_names_segments_and_epochs_and_ends_at_the_total(two):
    steps = []
    device = Cause(learner=learner("mlp"), system=PLAIN, shards=2, slots=12, executor=two, watch=steps.append)
    device.learn([with_data(upload) for upload in SCENE.rounds[0].uploads()])
    assert {step.segment.shard for step in steps} == {0, 1}
    assert all(step.epochs == 2 and 1 <= step.epoch <= 2 for step in steps)
    assert steps[-1].done == steps[-1].total == 12 * 2


def test_what_waits_for_its_turn_is_counted():
    executor = Processes(3)
    device = Cause(learner=CountingLearner(), system=PLAIN, shards=3, slots=12, executor=executor)
    device.learn(SCENE.rounds[0].uploads())
    assert executor.in_flight_bytes >= min(head.size_bytes for head in device.heads().values())
    executor.close()


def counted(shard: int) -> Task:
    upload = TraceUpload("u7", 1, (Part(9 + shard),))
    return Task(Lesson(SegmentKey(shard, 1), (Piece(upload, upload.positions),), 9 + shard), b"")


def everything() -> list[object]:
    gc.unfreeze()  # what is frozen is not listed
    return gc.get_objects()


def test_a_worker_that_waits_for_its_next_order_holds_nothing_of_the_last_one():
    ours, theirs = multiprocessing.Pipe()
    worker = Thread(target=work, args=(theirs,))
    worker.start()
    assert isinstance(wire.receive(ours), Ready)
    wire.send(ours, Assignment(CountingLearner(), None, counted(0)))
    assert wire.receive(ours) == Trained(b"9")
    try:
        wait_until(lambda: not any(type(each) is Assignment for each in everything()), 5, "it is still held")
    finally:
        ours.close()
    worker.join()
    theirs.close()


def test_a_worker_that_waits_has_collected_what_lay_in_circles():
    ours, theirs = multiprocessing.Pipe()
    worker = Thread(target=work, args=(theirs,))
    worker.start()
    gc.disable()  # a worker that waits makes nothing, so nothing lets it begin by itself
    try:
        assert isinstance(wire.receive(ours), Ready)
        wire.send(ours, Assignment(Circular(), None, counted(0)))
        assert wire.receive(ours) == Trained(b"9")
        wait_until(lambda: not len(CIRCLES), 5, "reference cycles are still in memory")
    finally:
        gc.enable()
        ours.close()
        worker.join()
        theirs.close()


def test_what_a_worker_writes_into_its_learner_does_not_reach_others(two):
    learner = Noting()
    assert list(two.train(learner, shard_work(0, 1), lambda *_: None)) == [b"9", b"10"]
    assert learner.seen == 0


def test_a_sub_model_that_was_handed_over_is_held_here_no_more(two):
    with closing(two.train(CountingLearner(), [ShardWork(0, lambda: None, [counted(991)], lambda: True)], print)) as it:
        blob = next(it)
        assert blob == b"1000"
        assert sys.getrefcount(blob) == 2


def test_what_waits_for_its_turn_goes_at_once_also_while_the_caller_has_the_one_before(two, tmp_path):
    forgotten: list[int] = []
    work = [*shard_work(1), ShardWork(0, lambda: None, [counted(0), counted(0)], lambda: not forgotten)]
    (tmp_path / "0").touch()

    def let_the_first_be_last() -> None:
        wait_until(lambda: two._shards and len(two._shards[1].done) == 2)
        (tmp_path / "1").touch()

    waiter = Thread(target=let_the_first_be_last)
    waiter.start()
    with closing(two.train(Held(tmp_path), work, lambda *_: None)) as blobs:
        assert [next(blobs), next(blobs)] == [b"10", b"9"]
        waiting = two._shards[1].done[1]
        held = sys.getrefcount(waiting)
        forgotten.append(0)
        two.cancel([0])
        assert sys.getrefcount(waiting) == held - 1
        assert list(blobs) == [None]
    waiter.join()


def test_unread_output_of_a_cancelled_worker_is_discarded(two, tmp_path):
    forgotten: list[int] = []
    (tmp_path / "0").touch()
    with closing(two.train(Held(tmp_path), shard_work(0, 1, forgotten=forgotten), lambda *_: None)) as blobs:
        assert next(blobs) == b"9"
        (worker,) = two._busy
        (tmp_path / "1").touch()
        if not worker.ready:
            assert isinstance(wire.receive(worker.pipe), Ready)
            two._send(worker, worker.learner)
        assert worker.pipe.poll(20)
        forgotten.append(1)
        two.cancel([1])
        with pytest.raises(EOFError):
            wire.receive(worker.pipe)
        assert list(blobs) == [None]


def test_too_few_open_files_for_a_worker_are_an_error_of_one_line():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(Processes(1)) as one:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
        try:
            with pytest.raises(InputError, match="cannot start a worker process: Too many open files"):
                list(one.train(CountingLearner(), shard_work(0), lambda *_: None))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert list(one.train(CountingLearner(), shard_work(0), lambda *_: None)) == [b"9"]


def test_too_few_open_files_for_the_output_of_a_worker_are_an_error_of_one_line():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(Processes(1)) as one:
        learner = Large()
        assert list(one.train(learner, shard_work(0), lambda *_: None)) == [bytes(1 << 20)]
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            with pytest.raises(InputError, match="cannot start a worker process: Too many open files"):
                list(one.train(learner, shard_work(0), lambda *_: None))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert list(one.train(learner, shard_work(0), lambda *_: None)) == [bytes(1 << 20)]


def test_an_answer_that_cannot_be_sent_is_an_error(two):
    with pytest.raises(ShardError, match="training failed in a worker: TypeError"):
        list(two.train(Viewing(), shard_work(0), lambda *_: None))


def test_an_error_that_cannot_be_unpickled_is_reported(two):
    with pytest.raises(ShardError, match="a worker's message cannot be read: TypeError"):
        list(two.train(Fussy(), shard_work(0), lambda *_: None))


def test_what_was_trained_and_waits_for_its_turn_goes_when_its_shard_is_forgotten(two, tmp_path):
    forgotten: list[int] = []
    given = shard_work(0, 1, forgotten=forgotten)
    got: list[bytes | None] = []
    training = Thread(target=lambda: got.extend(two.train(Held(tmp_path), given, lambda *_: None)))
    training.start()
    (tmp_path / "1").touch()
    waiting = wait_until(lambda: [each for each in two._shards if each.done])
    forgotten.append(1)
    two.cancel([1])
    assert waiting[0].number == 1
    assert waiting[0].done == []
    (tmp_path / "0").touch()
    training.join()
    assert got == [b"9", None]


def shard_work(*shards: int, forgotten: list[int] | None = None) -> list[ShardWork]:
    """Return one segment for each of some shards; work of the shards in `forgotten` is no longer current."""

    def current(shard: int) -> bool:
        return shard not in (forgotten or ())

    return [ShardWork(n, lambda: None, [counted(n)], partial(current, n)) for n in shards]


@pytest.fixture(scope="module", params=[InProcess, lambda: Processes(1)], ids=["here", "processes"])
def executor(request):
    with closing(request.param()) as made:
        yield made


def test_a_stop_that_comes_before_anything_is_trained_stops_the_next_call_once(executor):
    executor.cancel()
    with pytest.raises(Cancelled):
        list(executor.train(CountingLearner(), shard_work(0, 1), lambda *_: None))
    assert list(executor.train(CountingLearner(), shard_work(0, 1), lambda *_: None)) == [b"9", b"10"]


def test_a_stop_between_two_segments_is_not_lost(executor):
    with closing(executor.train(CountingLearner(), shard_work(1, 0), lambda *_: None)) as blobs:
        assert next(blobs) == b"10"
        executor.cancel()  # nobody is busy
        with pytest.raises(Cancelled):
            next(blobs)


def test_a_stop_after_the_last_segment_does_not_stop_the_next_call(executor):
    with closing(executor.train(CountingLearner(), shard_work(0), lambda *_: None)) as blobs:
        assert next(blobs) == b"9"
        executor.cancel()
        with pytest.raises(Cancelled):
            next(blobs)
    assert list(executor.train(CountingLearner(), shard_work(0), lambda *_: None)) == [b"9"]


def test_a_stop_of_a_call_that_its_caller_ends_does_not_stop_the_next_call(executor):
    with closing(executor.train(CountingLearner(), shard_work(0, 1), lambda *_: None)) as blobs:
        assert next(blobs) == b"9"
        executor.cancel()
    assert list(executor.train(CountingLearner(), shard_work(0), lambda *_: None)) == [b"9"]


def test_what_is_closed_can_be_used_again(executor):
    executor.cancel()
    executor.close()
    assert list(executor.train(CountingLearner(), shard_work(0), lambda *_: None)) == [b"9"]


class Reassigned:
    """Forgotten shards, whose lookup takes so long that the worker of shard 1 can finish and get other work."""

    def __init__(self, executor: Processes, folder: Path, forgotten: list[int]) -> None:
        self.executor, self.folder, self.forgotten = executor, folder, forgotten

    def __contains__(self, shard: int) -> bool:
        (self.folder / "1").touch()
        with contextlib.suppress(AssertionError):  # it need not get other work
            wait_until(lambda: [w.shard.number for w in self.executor._busy if w.shard] not in ([], [1]), 1)
        if shard == 1:
            self.forgotten.append(1)
        return shard == 1


def test_no_worker_is_cancelled_for_work_that_it_no_longer_does(tmp_path, monkeypatch):
    monkeypatch.setattr(Processes, "tries", 1)  # one death too many is enough
    forgotten: list[int] = []
    (tmp_path / "warm").mkdir()
    (tmp_path / "warm" / "1").touch()
    with closing(Processes(1)) as one:
        assert list(one.train(Held(tmp_path / "warm"), shard_work(1), lambda *_: None)) == [b"10"]
        got: list[object] = []

        def training() -> None:
            try:
                got.extend(one.train(Held(tmp_path), shard_work(0, 1, forgotten=forgotten), lambda *_: None))
            except LearnerError as error:
                got.append(error)

        thread = Thread(target=training)
        thread.start()
        wait_until(lambda: any(worker.ready and worker.shard for worker in one._busy))  # the larger one goes first
        one.cancel(Reassigned(one, tmp_path, forgotten))  # type: ignore[arg-type]
        (tmp_path / "0").touch()
        thread.join()
        assert got == [b"9", None]


def test_a_cancelled_worker_does_not_count_as_one_that_died(two, tmp_path, monkeypatch):
    monkeypatch.setattr(Processes, "tries", 1)
    forgotten: list[int] = []
    got: list[bytes | None] = []
    work = shard_work(0, 1, forgotten=forgotten)
    training = Thread(target=lambda: got.extend(two.train(Held(tmp_path), work, lambda *_: None)))
    training.start()
    wait_until(lambda: sum(worker.ready for worker in two._busy) == 2)
    dying = [worker.process.pid for worker in two._busy if worker.shard.number == 1]
    forgotten.append(1)
    two.cancel([1])
    assert not any(map(alive, dying)), "what it held is gone when this returns"
    (tmp_path / "0").touch()
    training.join()
    assert got == [b"9", None]


@pytest.mark.parametrize("workers", [-1, 257])
def test_an_absurd_number_of_workers_is_refused(workers):
    with pytest.raises(InputError, match="number of workers"):
        Cause(learner=learner("mlp"), slots=12, workers=workers)


SCRIPT = """
import signal
import sys
from cause.device.device import Cause
from tests.executors.worker_learners import Endless
from tests.traces import SCENE

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite started in the background ignores it
    device = Cause(learner=Endless(), system="sisa", shards=2, slots=12, workers=2,
                   watch=lambda step: print("step", [w.process.pid for w in device.engine.executor._busy], flush=True))
    try:
        device.learn(SCENE.rounds[0].uploads())
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_ctrl_c_or_the_death_of_its_parent(tmp_path, how):
    script = tmp_path / "endless.py"
    script.write_text(textwrap.dedent(SCRIPT))
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    line = ""
    while line.count(",") != 1:  # both are at it
        line = process.stdout.readline()
        assert line.startswith("step"), process.stderr.read()
    workers = [int(pid) for pid in line[6:-2].split(",")]
    assert all(alive(pid) for pid in workers)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does: to the workers too
    else:
        os.kill(process.pid, how)
    out, err = process.communicate(timeout=60)
    assert err == ""
    if how == signal.SIGINT:
        assert out.endswith("stopped\n")
        assert process.returncode == 0
    wait_until(lambda: not any(map(alive, workers)))


def test_workers_that_had_samples_of_a_retired_shard_end(tmp_path):
    (tmp_path / "1").touch()
    with closing(Processes(2)) as two:
        assert list(two.train(Held(tmp_path), shard_work(1), lambda *_: None)) == [b"10"]
        (had,) = pids(two)
        two.retire([0])
        assert alive(had), "it was given nothing of that shard"
        got: list[bytes | None] = []
        training = Thread(target=lambda: got.extend(two.train(Held(tmp_path), shard_work(0), lambda *_: None)))
        training.start()
        wait_until(lambda: any(worker.ready and worker.shard for worker in two._busy))
        two.retire([1])
        assert alive(had), "it trains another shard, and goes on"
        (tmp_path / "0").touch()
        training.join()
        assert got == [b"9"]
        assert not alive(had), "it ends with its segment"
        (tmp_path / "1").touch()
        assert list(two.train(Held(tmp_path), shard_work(1), lambda *_: None)) == [b"10"]
        (fresh,) = pids(two)
        two.retire([1])
        assert not alive(fresh), "an idle one ends at once"
        assert pids(two) == []


def test_workers_that_take_turns_on_a_gpu_are_warned_of_once(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))  # no daemon there
    with closing(Processes(2)) as executor:
        device = Cause(learner=OnGpu(), system=PLAIN, shards=2, slots=8, executor=executor)
        with pytest.warns(UserWarning, match="2 processes share a GPU"):
            device.learn([TraceUpload(user, 1, (Part(3),)) for user in ("ann", "bob")])
        device.learn([TraceUpload(user, 2, (Part(3),)) for user in ("ann", "bob")])  # a second warning is an error
