"""Nodes that end and come back, files of Ray that vanish, and a device that is killed: the bits stay the same."""

import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from cause.device.device import Cause
from cause.executors.cluster import RayExecutor
from tests.clean_room import differences
from tests.device.homes import MASTER, learn, opened
from tests.executors.cluster.nodes import MEMORY, local_nodes
from tests.executors.cluster.ray_needed import MARKS, let_nodes_import_tests
from tests.executors.cluster.test_ray import lives, workers
from tests.executors.worker_learners import Held
from tests.waiting import wait_until

pytestmark = MARKS
LEASE_S = 2.0


@pytest.fixture(scope="module")
def cluster():
    let_nodes_import_tests()
    with local_nodes(2) as made:
        yield made


@pytest.fixture
def executor(cluster):
    with closing(RayExecutor(cluster.address, lease=LEASE_S)) as made:
        yield made


def training(executor, begun):
    """Let a device live in a thread; return the thread and where it puts the device, once enough workers train."""
    made: list[Cause] = []
    thread = threading.Thread(target=lambda: made.append(lives(executor)))
    thread.start()
    wait_until(lambda: sum(worker.ready for worker in [*executor._busy, *executor._idle]) >= begun, 120)
    return thread, made


def test_a_node_ends_during_a_training_and_another_one_joins(cluster, executor):
    plain = lives(None)
    thread, made = training(executor, 2)
    node = next(node for node in cluster.worker_nodes)
    cluster.remove_node(node, allow_graceful=False)  # its processes are killed, and its workers with them
    cluster.add_node(num_cpus=1, **MEMORY)
    thread.join(240)
    assert made
    assert differences(plain, made[0]) == []
    assert len(executor._idle) >= 1


def test_the_folders_of_a_nodes_object_store_vanish(cluster, tmp_path):
    plain, store, spilled = lives(None), tmp_path / "store", tmp_path / "spilled"
    store.mkdir()
    spilled.mkdir()
    node = cluster.add_node(num_cpus=1, plasma_directory=str(store), object_spilling_directory=str(spilled), **MEMORY)
    with closing(RayExecutor(cluster.address, lease=LEASE_S)) as executor:
        thread, made = training(executor, 1)
        shutil.rmtree(store)
        shutil.rmtree(spilled)
        thread.join(240)
        assert made
        assert differences(plain, made[0]) == []
        assert differences(plain, lives(executor)) == [], "and so does another training afterwards"
    cluster.remove_node(node, allow_graceful=False)


def test_a_device_that_is_killed_goes_on_at_the_next_opening(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    program = (
        "import sys\nfrom cause.executors.cluster import RayExecutor\nfrom tests.device.homes import learn, opened\n"
        "from tests.executors.worker_learners import Held\n"
        "device = opened(sys.argv[1], Held(sys.argv[2]), executor=RayExecutor(sys.argv[3], lease=2.0))\n"
        "print('opened', flush=True)\nlearn(device, alice=20, bob=20, carol=9)"
    )
    (tmp_path / "0").touch()  # shard 0 is trained and stored, shard 1 waits
    command = [sys.executable, "-c", program, tmp_path / "home", tmp_path, cluster.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"opened\n"
        wait_until(lambda: len(workers()) == 2, 120)
        with opened(tmp_path / "home", Held(tmp_path), read_only=True) as reader:
            wait_until(lambda: (reader.state.refresh_if_reader(), reader.heads())[1], 120)
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not workers(), LEASE_S + 5)
    (tmp_path / "1").touch()
    with (
        closing(RayExecutor(cluster.address, lease=LEASE_S)) as executor,
        opened(tmp_path / "home", Held(tmp_path), executor=executor) as device,
    ):
        assert device.waiting() == [1]
        assert device.catch_up()[0] == 1, "shard 0 was stored before, and is not trained again"
        device.forget("carol")
        heads = {shard: device.home.shelf.get(head.key) for shard, head in device.heads().items()}
        assert device.verify(processes=0).mismatched == []
    with opened(tmp_path / "plain", Held(tmp_path)) as plain:
        learn(plain, alice=20, bob=20, carol=9)
        plain.forget("carol")
        assert heads == {shard: plain.home.shelf.get(head.key) for shard, head in plain.heads().items()}


def test_a_node_that_comes_and_goes_does_not_stop_the_rest(cluster, executor):
    plain, made = lives(None), list[Cause]()
    thread = threading.Thread(target=lambda: made.extend(lives(executor) for _ in range(2)))
    thread.start()
    times = 0
    while thread.is_alive() and times < 20:
        node = cluster.add_node(num_cpus=1, **MEMORY)
        thread.join(1.0)
        cluster.remove_node(node, allow_graceful=False)
        times += 1
    thread.join(240)
    assert times
    assert [differences(plain, device) for device in made] == [[], []]
