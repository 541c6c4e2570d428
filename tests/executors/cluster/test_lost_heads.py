"""The head of a cluster dies, or the node through which a device has joined: the device goes on.

Ray ends the process that has joined, or leaves it waiting. That is another process than the device's.
"""

import socket
import threading
from contextlib import closing

import pytest

from cause.device.device import Cause
from cause.errors import PassingError
from cause.executors.cluster import RayExecutor
from tests.clean_room import differences
from tests.device.homes import MASTER, learn, opened
from tests.executors.cluster.nodes import MEMORY, local_nodes
from tests.executors.cluster.ray_needed import MARKS, let_nodes_import_tests
from tests.executors.cluster.test_ray import lives
from tests.waiting import wait_until

pytestmark = MARKS
LEASE_S = 2.0


@pytest.fixture(autouse=True)
def short_patience(monkeypatch):
    """Let Ray's processes give a lost head up after seconds; a minute otherwise."""
    let_nodes_import_tests()
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")


def test_the_node_through_which_the_device_has_joined_dies_in_a_training():
    plain, made = lives(None), list[Cause]()
    with local_nodes(3, cpus=1) as cluster, closing(RayExecutor(cluster.address, lease=LEASE_S)) as executor:
        joined = executor._client.process()
        thread = threading.Thread(target=lambda: made.append(lives(executor)))
        thread.start()
        wait_until(lambda: any(worker.ready for worker in executor._busy), 120)
        cluster.head_node.kill_raylet()
        thread.join(240)
        assert made, "the training waits for a node that is dead"
        assert joined.has_ended
        assert differences(plain, made[0]) == []


def test_a_device_without_its_cluster_says_so_and_forgets(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with opened(tmp_path / "plain") as plain:
        for _ in range(2):
            learn(plain, a=30, b=30)
        plain.forget("a")
        expected = plain.heads()
    with local_nodes(2, gcs_server_port=port) as cluster:
        executor = RayExecutor(cluster.address, lease=LEASE_S)
        device = opened(tmp_path / "home", executor=executor)
        learn(device, a=30, b=30)
        joined = executor._client.process()
        cluster.head_node.kill_gcs_server()
        with pytest.raises(PassingError, match=r"the Ray cluster '.*' was lost: .*; round 2 is recorded") as error:
            learn(device, a=30, b=30)
        assert "\n" not in str(error.value)
        wait_until(lambda: joined.has_ended, 30)
        device.forget("a", repair="later")
        assert device.ledger.rounds_of("a") == []
        assert device.heads() == {} or device.waiting()
    with local_nodes(1, gcs_server_port=port) as cluster:
        cluster.add_node(num_cpus=1, **MEMORY)
        assert cluster.address == executor.address, "another cluster at the same address"
        device.repair()
        assert device.waiting() == []
        assert {shard: head.identity for shard, head in device.heads().items()} == {
            shard: head.identity for shard, head in expected.items()
        }
        device.close()
        executor.close()
