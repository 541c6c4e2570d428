"""A pool over nodes of several environments: each shard is trained on nodes of its own environment alone."""

import time
import warnings
from abc import abstractmethod
from collections.abc import Collection, Mapping

from cause.common.registry import check_choice
from cause.engine.environments import absent
from cause.engine.learner import Learner
from cause.errors import CauseError, PassingError
from cause.executors.cluster.leased_pool import LeasedPool
from cause.executors.cluster.other_environments import OTHER_ENVIRONMENTS, REFUSE, WHOLE_SHARDS
from cause.executors.cluster.remote import RemoteProcess
from cause.executors.pool import UNSENDABLE, ActiveShard, Worker, unsendable

ANSWER_S = 120.0
"""How long nodes may take to tell their environments: workers must be placed there, and import a learning library."""
LONGEST_PAUSE_S = 600.0
"""A node that did not tell its environment is asked again after so long at most."""


class NodePool(LeasedPool):
    """A pool of workers on nodes whose environments may differ.

    With `other_environments="whole-shards"` each node is asked for its environment, by a worker that then stays for
    trainings. A shard goes to workers of the environment that its tasks name, and to no others.

    Parameters
    ----------
    workers
        The number of workers at one time.
    lease
        The seconds that a worker may live without the device.
    other_environments
        One of `OTHER_ENVIRONMENTS`.

    Raises
    ------
    InputError
        If `other_environments` is not one of these.
    """

    def __init__(self, workers: int, lease: float, other_environments: str) -> None:
        check_choice("other_environments", other_environments, OTHER_ENVIRONMENTS)
        super().__init__(workers, lease)
        self.other_environments = other_environments
        self._environment = ""  # of the device
        self._recipe = b""  # of the learner that the nodes were asked about
        self._environment_of: dict[str, str] = {}  # the environments of the nodes
        self._silent: dict[str, tuple[float, float]] = {}  # nodes that did not: the time to ask again, and the pause
        self._room: dict[str, int] = {}  # by environment
        self._why_silent = "none has room for a worker"  # why the last node did not tell its environment

    @abstractmethod
    def _nodes(self) -> Mapping[str, int]:
        """Return the nodes that are alive, each with the number of workers that it has room for."""

    @abstractmethod
    def _start_on(self, nodes: Collection[str]) -> Worker:
        """Start a worker on one of these nodes."""

    def environments(self, learner: Learner) -> Mapping[str, int]:
        """Return the environments of the nodes, each with the number of workers there is room for.

        Raises
        ------
        PassingError
            If no node has told its environment.
        """
        if self.other_environments == REFUSE:
            return super().environments(learner)
        self._keep_idle()
        try:
            self._ask(learner)
        finally:
            self._release_idle_later()
        self._room = {}
        for node, workers in self._nodes().items():
            if node in self._environment_of:
                environment = self._environment_of[node]
                self._room[environment] = self._room.get(environment, 0) + workers
        if not self._room:
            raise PassingError(f"no node of the cluster can be used: {self._why_silent}")
        return dict(self._room)

    def _ask(self, learner: Learner) -> None:
        """Ask nodes that joined since the last call for their environment; all of them if the learner is another.

        A node that did not tell it is asked again after a pause, which is as long as the question took, and doubles
        each time: a worker that was killed costs a moment, and a node without room delays trainings rarely.
        """
        if learner.recipe_digest != self._recipe:
            self._recipe, self._environment_of, self._silent = learner.recipe_digest, {}, {}
            self._end_idle()
        pending, began = {}, time.monotonic()
        for node, workers in self._nodes().items():
            ask_at, _ = self._silent.get(node, (began, 0.0))
            if workers and node not in self._environment_of and ask_at <= began:
                worker = self._start_on([node])
                with self._lock:
                    self._idle.append(worker)  # it suits no shard until its environment is known
                assert isinstance(worker.process, RemoteProcess)
                try:
                    pending[node] = worker, worker.process.ask_environment(learner)
                except UNSENDABLE as error:  # of pickle
                    self._end_idle()
                    raise unsendable(error) from None
        for node, (worker, answer) in pending.items():
            try:
                worker.environment = self._environment_of[node] = answer.result(
                    max(0.0, began + ANSWER_S - time.monotonic())
                )
            except Exception as error:  # the worker was not placed, ended, or the learner cannot be used there
                self._why_silent = str(error) if isinstance(error, CauseError) else "it told no environment"
                now, (_, earlier_pause) = time.monotonic(), self._silent.get(node, (0.0, 0.0))
                pause = min(max(now - began, 2 * earlier_pause), LONGEST_PAUSE_S)
                self._silent[node] = now + pause, pause
                warnings.warn(f"node {node[:8]} of the cluster is not used: {self._why_silent}", stacklevel=2)
                with self._lock:
                    idle = worker in self._idle
                    self._idle = [other for other in self._idle if other is not worker]
                if idle:
                    self._dismiss(worker)
                    worker.close()

    def _note_other(self, node: str, environment: str) -> None:
        """Note the environment of a node whose worker refused a task because it is another one."""
        self._environment_of[node] = environment

    def _prepare(self, learner: Learner, shards: int) -> None:
        self._environment = learner.environment
        if self.other_environments == WHOLE_SHARDS and learner.recipe_digest != self._recipe:
            self.environments(learner)
            self._keep_idle()  # for the training that begins

    def _start_for(self, shard: ActiveShard) -> Worker:
        if self.other_environments == REFUSE:
            return super()._start_for(shard)
        environment, alive = self._shard_environment(shard), self._nodes()
        nodes = [node for node, other in self._environment_of.items() if other == environment and node in alive]
        if not nodes:
            raise absent(shard.number, environment, [self._environment_of.get(node, "unknown") for node in alive])
        worker = self._start_on(nodes)
        worker.environment = environment
        return worker

    def _suits(self, worker: Worker, shard: ActiveShard) -> bool:
        return self.other_environments == REFUSE or worker.environment == self._shard_environment(shard)

    def _has_room(self, shard: ActiveShard) -> bool:
        if self.other_environments == REFUSE:
            return True
        busy = sum(self._suits(worker, shard) for worker in self._busy)
        return busy < max(1, self._room.get(self._shard_environment(shard), 0))

    def _shard_environment(self, shard: ActiveShard) -> str:
        """Return the environment that a shard must be trained in."""
        return shard.environment or self._environment
