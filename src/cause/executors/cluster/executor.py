"""Trains shards on the machines of a Ray cluster: the bits are those of one process, erasures reach every machine."""

import atexit
import contextlib
import os
import warnings
import weakref
from collections.abc import Collection, Mapping
from threading import Lock
from typing import Any

from cause.engine.learner import Learner
from cause.errors import InputError, PassingError
from cause.executors.cluster.connection import imported_ray, require_protection
from cause.executors.cluster.lease import LEAST_S, MOST_S
from cause.executors.cluster.listener import Listener
from cause.executors.cluster.node_pool import NodePool
from cause.executors.cluster.other_environments import REFUSE, WHOLE_SHARDS, difference
from cause.executors.cluster.ray_client import ANSWER_S, RayClient, RayProcess
from cause.executors.cluster.remote import RemoteProcess
from cause.executors.cluster.resources import actor_options, cluster_capacity, lacking, node_capacity
from cause.executors.cluster.status import worker_name
from cause.executors.pool import Worker

LEASE_S = 5.0
MOST_CLUSTER_WORKERS = 4_096
PATIENCE_S = 15.0
"""How long a worker may wait for room before that is said."""
PLACE_S, LONGEST_PLACE_S = 60.0, 600.0
"""How long Ray may take to start a worker, at first and at most. It may have lost the request with a connection, and
never say so."""


class StartLimit:
    """How long Ray may take to start a worker: twice as long after each start that took too long.

    On a machine with much other work a start takes minutes. With one limit for all, each would be given up, and the
    next one begun from nothing, for ever.
    """

    def __init__(self) -> None:
        self.seconds = PLACE_S
        self._said = False

    def waits(self) -> None:
        """Say, the first time, that a worker is not placed yet."""
        if not self._said:
            self._said = True
            with contextlib.suppress(Warning):  # where warnings are errors: it goes on waiting
                warnings.warn(
                    "a worker waits for room on the Ray cluster: `cause cluster status` shows what runs there",
                    stacklevel=2,
                )

    def exceeded(self, seconds: float) -> None:
        """Record that a start took longer than these seconds."""
        self.seconds = min(max(self.seconds, 2 * seconds), LONGEST_PLACE_S)

    def kept(self) -> None:
        """Record that a worker has started in time."""
        self.seconds = PLACE_S


class RayExecutor(NodePool):
    """Trains shards on the nodes of a Ray cluster.

    Ray starts and places the worker processes. Samples, sub-models and learners go through a connection between device
    and worker that both ends seal with a key of their own; Ray's object store, files and logs hold none of them.

    A worker lives as long as the device renews its lease. When samples are forgotten, the leases of the workers that
    received samples of the touched shards are revoked. The call returns when each of them has confirmed that it ends,
    or its lease has run out, so that the time is bounded also for a worker that is stopped or cut off. A machine that
    is frozen as a whole (suspended, or a paused virtual machine) is outside this bound; the kernel ends its worker
    when it wakes up.

    Parameters
    ----------
    address
        The address of the cluster (`HOST:PORT`), `"auto"` for the one that runs on this machine, or `"local"` to start
        one here.
    workers
        The number of workers at one time; by default as many as the cluster has room for when a training begins.
    per_worker
        What each worker needs: `cpus`, `gpus` (also parts), `memory` in bytes. One CPU by default.
    lease
        The seconds that a worker may live without the device.
    port
        The port on which workers reach this device; any free one by default.
    other_environments
        What to do with nodes whose environment (versions, processor, settings) is not the device's, so that they give
        other bits: "refuse" them, or let them train "whole-shards", each shard in one environment for ever.

    Raises
    ------
    InputError
        If Ray is not installed, the cluster cannot be joined or is not protected, or an argument is out of range.
    """

    tries = 10
    """Nodes come and go, which is not the fault of a segment."""

    def __init__(
        self,
        address: str = "auto",
        *,
        workers: int | None = None,
        per_worker: Mapping[str, float] | None = None,
        lease: float = LEASE_S,
        port: int = 0,
        other_environments: str = REFUSE,
    ) -> None:
        if not LEAST_S <= lease <= MOST_S:
            raise InputError(f"the lease of a worker must be from {LEAST_S:g} to {MOST_S:g} seconds, not {lease:g}")
        self.address = address
        self._options = actor_options(per_worker or {"cpus": 1})
        self._ray = imported_ray()  # for its pickle; another process joins the cluster
        self._client = RayClient(address)
        nodes = self._client.nodes()
        self._follows = workers is None  # nodes that join later are used by the next training
        if workers is None:
            workers = self._fitting(nodes) or 1
        if not 1 <= workers <= MOST_CLUSTER_WORKERS:
            raise InputError(f"the number of workers must be from 1 to {MOST_CLUSTER_WORKERS}, not {workers}")
        super().__init__(workers, lease, other_environments)
        self._listener = Listener(self._client.host, port)
        self._others: dict[str, str] = {}  # nodes of another environment, with it
        self._others_lock = Lock()
        self._start_limit = StartLimit()
        _close_at_exit(self)

    def _nodes(self) -> dict[str, int]:
        return {node["NodeID"]: node_capacity(node["Resources"], self._options) for node in self._client.nodes()}

    def _fitting(self, nodes: Collection[Mapping[str, Any]]) -> int:
        """Return how many workers these nodes can hold."""
        return min(cluster_capacity(nodes, self._options), MOST_CLUSTER_WORKERS)

    def _prepare(self, learner: Learner, shards: int) -> None:
        nodes = self._client.nodes()
        fitting = self._fitting(nodes)
        if not fitting:
            raise PassingError(lacking(nodes, self._options))  # Ray would wait for ever, without a word
        super()._prepare(learner, shards)
        if self._follows:
            self.workers = fitting

    def _start(self) -> Worker:
        with self._others_lock:
            others = dict(self._others)
        alive = {node["NodeID"] for node in self._client.nodes()}
        if alive and alive <= set(others):
            raise InputError(
                f"every node of the cluster has another environment than this device ({self._environment}): "
                + "; ".join(f"node {node[:8]}: {difference}" for node, difference in sorted(others.items()))
            )
        return self._made({"ray.io/node-id": f"!in({','.join(sorted(others))})"} if others else {})

    def _start_on(self, nodes: Collection[str]) -> Worker:
        return self._made({"ray.io/node-id": f"in({','.join(sorted(nodes))})"})

    def _made(self, selector: Mapping[str, str]) -> Worker:
        """Start a worker on a node whose labels fit a selector; on any node if the selector is empty."""
        actor = RayActor(self._client, self._options, selector, self._start_limit)
        process = RemoteProcess(
            actor, self._listener, self.lease, lambda seen: self._refuse(actor, seen), self._ray.cloudpickle.dumps
        )
        process.environment = self._environment
        return Worker(process, process.pipe, pack=process.pack)

    def close(self) -> None:
        """End all workers, and leave the cluster; a running call of `train` raises `Cancelled`."""
        super().close()
        self._client.close()

    def _refuse(self, actor: "RayActor", environment: str) -> None:
        """Stop using a node of another environment, or use it only for shards of that one: its bits would differ."""
        if self.other_environments == WHOLE_SHARDS:
            self._note_other(actor.node, environment)
            return
        named = difference(self._environment, environment)
        with self._others_lock:
            self._others[actor.node] = named
        warnings.warn(f"a node of the cluster is not used, it has another environment: {named}", stacklevel=2)


_open: "weakref.WeakSet[RayExecutor]" = weakref.WeakSet()
_registered: list[int] = []  # the process that closes them at its end; a fork does not


def _close_at_exit(executor: RayExecutor) -> None:
    """Close an executor when the program ends without having closed it, before Ray leaves the cluster."""
    _open.add(executor)
    if not _registered:
        _registered.append(os.getpid())
        atexit.register(_close_all)  # after the import of Ray, whose own function is called later then


def _close_all() -> None:
    if _registered == [os.getpid()]:
        for executor in list(_open):
            with contextlib.suppress(Exception):
                executor.close()


class RayActor:
    """The Ray actor of one worker."""

    def __init__(
        self, client: RayClient, options: Mapping[str, Any], selector: Mapping[str, str], limit: StartLimit
    ) -> None:
        self._client, self._options, self._limit = client, dict(options), limit
        if selector:
            self._options["label_selector"] = dict(selector)
        self._number = client.next_number()
        self._process: RayProcess | None = None
        self.node = ""

    def start(self, host: str, port: int, device_key: bytes, lease: bytes, seconds: float) -> None:
        """Ask Ray for the actor."""
        self._process = self._client.process()
        options = {**self._options, "name": worker_name(seconds)}
        arguments = [host, port, device_key.hex(), lease.hex(), seconds]
        self._process.call("start", number=self._number, options=options, arguments=arguments)

    def public_key(self) -> bytes:
        """Wait until the actor runs, for as long as the limit says, and return its public key."""
        seconds = self._limit.seconds
        try:
            self.node, address = self._placed(seconds)
            require_protection(self._client.address, [address])
            key = bytes.fromhex(self._ask("public_key", seconds))
        except TimeoutError:
            self._limit.exceeded(seconds)
            raise
        self._limit.kept()
        return key

    def _placed(self, seconds: float) -> tuple[str, str]:
        """Wait for the node on which Ray places the actor, and say so if that takes long."""
        first = min(PATIENCE_S, seconds)
        with contextlib.suppress(TimeoutError):
            return tuple(self._ask("placed", first))
        self._limit.waits()
        return tuple(self._ask("placed", seconds - first))

    def _ask(self, name: str, seconds: float) -> Any:
        assert self._process is not None, "it was started"
        return self._process.call(name, seconds + ANSWER_S, number=self._number, timeout=seconds)

    def run(self) -> None:
        """Let the actor connect to the device."""
        assert self._process is not None, "it was started"
        self._process.call("run", number=self._number)

    def remove(self) -> None:
        """Tell Ray that the actor is not needed any more."""
        if self._process is not None:
            with contextlib.suppress(Exception):
                self._process.call("remove", number=self._number)
