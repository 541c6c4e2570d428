"""Devices that train on three Ray nodes of this machine. Skipped without Ray; `make test-cluster` runs them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cause.device.device import Cause
from cause.errors import PassingError
from cause.executors.cluster import RayExecutor
from cause.executors.cluster.connection import join
from cause.executors.cluster.status import workers_of
from cause.learners import CountingLearner
from cause.learners.sklearn import SklearnLearner
from tests.clean_room import differences
from tests.executors.cluster.nodes import local_cluster
from tests.executors.cluster.ray_needed import MARKS, let_nodes_import_tests
from tests.executors.cluster.test_remote import alive
from tests.executors.test_processes import shard_work
from tests.executors.worker_learners import Endless, Held
from tests.process_memory import Needles, readable, search
from tests.waiting import pass_time, wait_until

pytestmark = MARKS
LEASE_S = 2.0


@pytest.fixture(scope="module")
def address():
    let_nodes_import_tests()
    with local_cluster() as found:
        yield found


@pytest.fixture
def executor(address):
    with closing(RayExecutor(address, lease=LEASE_S)) as made:
        yield made


def ray_processes():
    """Return the processes of this test's cluster by number, with their command lines; this one is not among them."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if (command.startswith("ray::") or "/ray/" in command or "ray_process" in command) and is_ours(folder):
                    found[int(folder.name)] = command
            except OSError:
                continue
    return found


def is_ours(folder):
    """Whether a process descends from this one, or was given the token of this test's cluster; others may run, too."""
    if os.environ["RAY_AUTH_TOKEN"].encode() in (folder / "environ").read_bytes():
        return True
    number = int(folder.name)
    while number > 1:
        number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        if number == os.getpid():
            return True
    return False


def workers():
    """Return the numbers of the processes that train."""
    return [pid for pid, command in ray_processes().items() if command.startswith("ray::TrainingWorker")]


def lives(executor, users=6):
    """Let a device learn two rounds and forget, and return it."""
    from sklearn.linear_model import SGDClassifier

    learner = SklearnLearner(SGDClassifier(random_state=0), classes=3, features=8, epochs=3)
    device = Cause(learner=learner, system="frugal", shards=4, slots=12, seed=5, executor=executor)
    draw = np.random.default_rng(1)
    for _ in range(2):
        uploads = {f"u{n}": (draw.normal(size=(20, 8)), draw.integers(3, size=20)) for n in range(users)}
        device.learn(uploads)
    device.forget("u1")
    device.forget("u2", rounds=[1])
    return device


def test_bits_are_those_of_one_process(executor, monkeypatch):
    started, start = [], executor._start
    monkeypatch.setattr(executor, "_start", lambda: (started.append(1), start())[1])
    plain, spread = lives(None), lives(executor)
    assert differences(plain, spread) == []
    assert len(started) > 1, "several workers took part"


def test_bits_stay_the_same_when_workers_die(executor):
    plain, stop, killed = lives(None), threading.Event(), set()

    def kill() -> None:
        while not stop.is_set() and len(killed) < 6:
            ready = any(worker.ready for worker in list(executor._busy))  # else none would ever come to train
            for pid in [pid for pid in workers() if pid not in killed][: int(ready)]:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            pass_time(0.05)

    killing = threading.Thread(target=kill)
    killing.start()
    try:
        spread = lives(executor)
    finally:
        stop.set()
        killing.join()
    assert killed
    assert differences(plain, spread) == []


@pytest.mark.parametrize("how", [None, signal.SIGSTOP], ids=["running", "stopped"])
def test_no_worker_of_a_forgotten_shard_is_left_when_cancel_returns(executor, how, capfd):
    ray = join(executor.address)
    forgotten: list[int] = []
    began = threading.Event()
    got: list[bytes | None] = []
    work = shard_work(0, forgotten=forgotten)
    thread = threading.Thread(target=lambda: got.extend(executor.train(Endless(), work, lambda *_: began.set())))
    thread.start()
    assert began.wait(120)
    (pid,) = workers()
    if how is not None:
        os.kill(pid, how)
    forgotten.append(0)
    started = time.monotonic()
    executor.cancel([0])
    assert time.monotonic() - started < LEASE_S + 1.5
    wait_until(lambda: not alive(pid), 1)
    thread.join()
    assert got == [None]
    wait_until(lambda: not workers_of(ray), 30)  # Ray knows that the worker ended, and could say so now
    pass_time(0.2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not readable(), reason="the memory of processes cannot be read here (/proc/PID/mem)")
def test_ray_holds_no_sample_while_one_is_trained_on_and_nobody_does_afterwards(executor, tmp_path):
    draw = np.random.default_rng(7)
    x, y = draw.normal(size=(40, 16)), draw.integers(3, size=40)
    needles = [Needles({f"row {n}": row.tobytes() for n, row in enumerate(x)})]
    device = Cause(learner=Held(tmp_path), system="sisa", shards=1, slots=4, executor=executor)
    learning = threading.Thread(target=device.learn, args=({"user-with-a-long-name": (x, y)},))
    learning.start()
    wait_until(lambda: any(worker.ready and worker.seen for worker in executor._busy), 120)
    training = wait_until(workers)

    def hits(pids):
        return {pid: found for pid in pids if (found := search(pid, needles, alone=True))}

    wait_until(lambda: hits(training), 60, "the worker never got the samples")
    others = [pid for pid in ray_processes() if pid not in workers()]
    assert len(others) > 3
    assert hits(others) == {}
    assert files_with(x[0].tobytes()) == []
    assert files_with(b"user-with-a-long-name") == []
    (tmp_path / "0").touch()
    learning.join()
    device.forget("user-with-a-long-name")
    wait_until(lambda: not any(alive(pid) for pid in training), 30)
    assert hits(ray_processes()) == {}
    assert files_with(x[0].tobytes()) == []


def files_with(needle):
    """Return the files of Ray and of shared memory that hold some bytes."""
    found = []
    for folder, _, names in (entry for place in ("/tmp/ray", "/dev/shm") for entry in os.walk(place)):
        for file in (Path(folder, name) for name in names):
            try:
                if file.is_file() and not file.is_symlink() and needle in file.read_bytes():
                    found.append(file)
            except OSError:
                continue
    return found


@pytest.mark.parametrize(
    ("token", "message"),
    [("f" * 64, "refuses the token"), (None, "a token is needed and none is set")],
    ids=["a wrong token", "no token"],
)
def test_a_wrong_token_is_one_line(address, token, message):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    if token:
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    program = (
        "import sys\nfrom cause.executors.cluster import RayExecutor\nfrom cause.errors import InputError\n"
        "try:\n    RayExecutor(sys.argv[1])\nexcept InputError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, address], env=environment, capture_output=True, text=True, timeout=120
    )
    assert message in done.stdout
    assert len((done.stdout + done.stderr).splitlines()) == 1


def test_nothing_is_printed_by_a_training_that_prints(executor):
    class Talking(CountingLearner):
        def train(self, parent, lesson, seed, tick=lambda *_: None):
            print("a sample in the log " * 3, flush=True)
            return super().train(parent, lesson, seed, tick)

    assert list(executor.train(Talking(), shard_work(0), lambda *_: None)) == [b"9"]
    assert files_with(b"a sample in the log") == []


NAMED = "a-user-whom-a-command-line-names"


def test_commands_train_on_a_cluster(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(3)
    np.savez(
        "data.npz", x=draw.normal(size=(60, 8)), y=draw.integers(3, size=60), users=np.repeat(["a", NAMED, "c"], 20)
    )

    def cause(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "cause", *arguments], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    init = ["--estimator", "SGDClassifier", "--features", "8", "--classes", "3", "--shards", "3"]
    for home, where in (("plain", ()), ("spread", ("--ray", address))):
        subprocess.run([sys.executable, "-m", "cause", "init", home, *init], check=True, capture_output=True)
        assert cause("learn", home, "data.npz", *where, "--json")["waiting"] == []
        assert cause("forget", home, "--user", NAMED, *where, "--json")["waiting"] == []
        verified = cause("verify", "--home", home, *where, "--json")
        assert (verified["mismatched"], verified["identical"] > 0) == (0, True)
        named = [body["cluster"]["lease_s"] for body in cause("receipts", home, "--json")["receipts"] if where]
        assert named == [5.0] * 2 * bool(where)
    if readable():
        needles = [Needles({"name": NAMED.encode()})]
        assert {pid: command for pid, command in ray_processes().items() if search(pid, needles, alone=True)} == {}
    assert files_with(NAMED.encode()) == []


@pytest.mark.parametrize("how", ["joined", "left to Ray"])
def test_ray_records_no_command_line(address, how):
    join = "import sys; from cause.executors.cluster.connection import join; join(sys.argv[1])"
    plain = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False)"
    command = [sys.executable, "-c", join if how == "joined" else plain, address, f"--user={how}"]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    from ray._private import state

    RayExecutor(address, lease=LEASE_S).close()
    recorded = any(f"--user={how}" in job["Entrypoint"] for job in state.jobs())
    assert recorded == (how == "left to Ray"), "Ray records it by itself, so this test can fail"


def test_another_version_of_ray_is_one_line(address):
    program = (
        "import sys, ray\nray.__version__ = '2.59.0'\nfrom cause.executors.cluster.connection import join\n"
        "from cause.errors import InputError\n"
        "try:\n    join(sys.argv[1])\nexcept InputError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program, address], capture_output=True, text=True, timeout=120)
    assert "another version of Ray or Python" in done.stdout
    assert "2.59.0" in done.stdout
    assert len((done.stdout + done.stderr).splitlines()) == 1


def test_a_command_shows_workers_and_their_leases(address, executor):
    assert list(executor.train(CountingLearner(), shard_work(0), lambda *_: None)) == [b"9"]
    command = [sys.executable, "-m", "cause", "cluster", "status", "--ray", address]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    (worker,) = found["workers"]
    assert worker["lease_s"] == LEASE_S
    assert worker["pid"] in workers()
    assert worker["node"] in {node["id"] for node in found["nodes"]}
    assert worker["device"].endswith(f"process {os.getpid()}")
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert f"worker {worker['pid']} of device" in shown
    executor.cancel([0])
    wait_until(lambda: not workers(), 5)


@pytest.mark.parametrize(("needs", "lacks"), [({"cpus": 1, "gpus": 1}, "0 GPU"), ({"memory": 1 << 45}, "memory")])
def test_what_no_node_can_hold_is_an_error_and_not_a_wait(address, needs, lacks):
    with (
        RayExecutor(address, per_worker=needs, lease=LEASE_S) as executor,
        pytest.raises(PassingError, match=f"can hold a worker.*{lacks}"),
    ):
        list(executor.train(CountingLearner(), shard_work(0), lambda *_: None))


def test_another_device_gets_the_room_of_one_that_is_idle(address, monkeypatch):
    monkeypatch.setattr("cause.executors.cluster.leased_pool.IDLE_S", 1.0)
    with RayExecutor(address, lease=LEASE_S) as first, RayExecutor(address, lease=LEASE_S) as second:
        for executor in (first, second):
            assert len(list(executor.train(CountingLearner(), shard_work(0, 1, 2), lambda *_: None))) == 3
    wait_until(lambda: not workers(), 5)


def test_a_program_that_closes_nothing_ends_cleanly(address, tmp_path):
    """No Ray is started at its end, and no worker is left."""
    program = (
        "import sys\nfrom cause.executors.cluster import RayExecutor\nfrom cause.device.device import Cause\n"
        "from cause.learners.sklearn import SklearnLearner\nfrom sklearn.naive_bayes import GaussianNB\n"
        "learner = SklearnLearner(GaussianNB(), classes=2, features=1)\n"
        "device = Cause(learner=learner, executor=RayExecutor(sys.argv[1]))\n"
        "device.learn({'ann': ([[0], [1]], [0, 1])})\nprint('done')"
    )
    sessions = set(Path("/tmp/ray").glob("session_*"))
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-c", program, address]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert list(tmp_path.iterdir()) == []  # Ray would write a token there
    assert set(Path("/tmp/ray").glob("session_*")) == sessions
    wait_until(lambda: not workers(), 5)


def test_a_command_shows_the_nodes(address):
    command = [sys.executable, "-m", "cause", "cluster", "status", "--ray", address]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert [(node["alive"], node["cpus"]) for node in found["nodes"]] == [(True, 1.0)] * 3
    assert (found["room"], found["capacity"], found["several_machines"]) == (3, 3, False)
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "3 nodes" in shown
