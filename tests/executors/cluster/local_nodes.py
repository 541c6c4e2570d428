"""Nodes of several environments without Ray: workers are processes of this machine with variables of their own."""

import threading
from collections.abc import Collection, Mapping

from cause.executors.cluster.listener import Listener
from cause.executors.cluster.node_pool import NodePool
from cause.executors.cluster.remote import RemoteProcess
from cause.executors.pool import Worker
from tests.executors.cluster.local_actor import LocalActor
from tests.two_environments import machine

_starting = threading.Lock()


class NodeActor(LocalActor):
    """A worker of a node."""

    def __init__(self, environment: str) -> None:
        super().__init__()
        self._environment = environment

    def start(self, *arguments: object) -> None:
        with _starting, machine(self._environment):  # a process gets the variables of the moment when it is started
            super().start(*arguments)


class LocalNodes(NodePool):
    """A pool over nodes, each with an environment and room for one worker."""

    def __init__(self, nodes: Mapping[str, str], lease: float = 5.0) -> None:
        super().__init__(len(nodes), lease, "whole-shards")
        self.nodes = dict(nodes)
        self.started = list[str]()
        self.refused = list[str]()
        self._listener = Listener("127.0.0.1")

    def _nodes(self) -> Mapping[str, int]:
        return dict.fromkeys(self.nodes, 1)

    def _start(self) -> Worker:
        raise AssertionError("a worker of any environment")

    def _start_on(self, nodes: Collection[str]) -> Worker:
        node = min(nodes)
        self.started.append(node)

        def refuse(environment: str) -> None:
            self.refused.append(environment)
            self._note_other(node, environment)

        process = RemoteProcess(NodeActor(self.nodes[node]), self._listener, self.lease, refuse)
        return Worker(process, process.pipe, pack=process.pack)

    def close(self) -> None:
        super().close()
        self._listener.close()
