"""A cluster of two machines, as two network namespaces: TLS and a token are required, and then it trains there."""

import json
import secrets

import pytest

from tests.executors.cluster.ray_needed import MARKS, let_nodes_import_tests
from tests.executors.cluster.two_machines import HEAD, OTHER, can_make_machines, certificates, two_machines

pytestmark = [*MARKS, pytest.mark.skipif(not can_make_machines(), reason="making network namespaces needs root")]

TRAIN = """
import json, sys
from cause.errors import InputError
from cause.executors.cluster import RayExecutor
from cause.learners import CountingLearner
from tests.executors.test_processes import shard_work
from tests.waiting import pass_time

class Slow(CountingLearner):  # else one worker is done with all shards before the other one has started
    def train(self, parent, lesson, seed, tick=lambda *_: None):
        pass_time(5.0)
        return super().train(parent, lesson, seed, tick)

try:
    with RayExecutor(sys.argv[1], lease=5.0) as executor:
        blobs = list(executor.train(Slow(), shard_work(0, 1, 2, 3), lambda *_: None))
        from cause.executors.cluster.connection import join
        from cause.executors.cluster.status import workers_of
        ray = join(sys.argv[1])
        nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        used = sorted({nodes[worker["node"]] for worker in workers_of(ray) if worker["node"]})
        print(json.dumps([[blob.decode() for blob in blobs], used]))
except InputError as error:
    print(error)
"""


def token():
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def test_workers_on_another_machine_train_behind_tls_and_a_token(tmp_path):
    let_nodes_import_tests()
    with two_machines({**certificates(tmp_path), **token()}) as machines:
        done = machines.run(TRAIN, machines.address)
        assert done.stdout, done.stderr
        assert json.loads(done.stdout) == [["9", "10", "11", "12"], [HEAD, OTHER]]


def test_without_tls_another_machine_is_refused_in_one_line():
    with two_machines(token()) as machines:
        done = machines.run(TRAIN, machines.address)
    assert f"node {OTHER} of the Ray cluster is on another machine, and TLS is off" in done.stdout
    assert len((done.stdout + done.stderr).splitlines()) == 1


def test_without_a_token_another_machine_is_refused_in_one_line(tmp_path):
    variables = {**certificates(tmp_path), "RAY_AUTH_MODE": "disabled"}
    with two_machines(variables) as machines:
        done = machines.run(TRAIN, machines.address)
    assert "takes commands without a token" in done.stdout
    assert len((done.stdout + done.stderr).splitlines()) == 1
