"""The process that joins a cluster for a device: why it cannot is one line, it ends, and it is started again."""

import socket
import subprocess
import sys

import pytest

from cause.errors import InputError, PassingError
from cause.executors.cluster import ray_client
from cause.executors.cluster.ray_client import RayClient, RayProcess


def test_why_a_cluster_cannot_be_joined_is_one_line_and_no_process_stays(monkeypatch):
    """Without Ray, that it is not installed; with it, that nothing listens."""
    started = []

    class Noted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(InputError, match=r"Ray is not installed|refused") as error:
        RayClient(f"127.0.0.1:{port}")
    assert "\n" not in str(error.value)
    (process,) = started
    assert process.poll() is not None


def test_calls_of_a_process_that_ends_fail_and_the_next_ones_have_a_new_process(monkeypatch):
    """The process of these tests answers as that of a cluster with one node does, and ends when it is told to."""
    answers = (
        "import json, socket, sys\n"
        "s = socket.socket(fileno=int(sys.argv[1]))\n"
        "for line in s.makefile('rb'):\n"
        "    call = json.loads(line)\n"
        "    if call['name'] == 'run':\n        sys.exit()\n"
        "    value = [{'NodeID': 'n', 'NodeManagerAddress': '127.0.0.1', 'Resources': {}}]\n"
        "    value = '127.0.0.1' if call['name'] == 'join' else value\n"
        "    s.sendall(json.dumps({'number': call['number'], 'value': value}).encode() + b'\\n')\n"
    )
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **options: popen([sys.executable, "-c", answers, command[-1]], **options)
    )
    client = RayClient("local")
    first = client.process()
    with pytest.raises(ConnectionError, match="was lost"):
        first.call("run", number=1)
    with pytest.raises(ConnectionError, match="was lost"):
        first.call("nodes")
    assert [node["NodeID"] for node in client.nodes()] == ["n"]
    assert client.process() is not first

    def refuse(address: str) -> RayProcess:
        raise InputError("cannot join the Ray cluster 'local': nothing answers")

    with pytest.raises(ConnectionError):
        client.process().call("run", number=2)
    monkeypatch.setattr(ray_client, "RayProcess", refuse)
    with pytest.raises(PassingError, match="the Ray cluster 'local' was lost: cannot join"):
        client.nodes()
    client.close()
