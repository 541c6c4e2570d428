"""Workers of the cluster as processes of this machine, without Ray: all but the placement is real."""

import multiprocessing
import threading
from multiprocessing.connection import Connection

from cause.engine.learner import Learner
from cause.executors.cluster.actor import TrainingWorker
from cause.executors.cluster.leased_pool import LeasedPool
from cause.executors.cluster.listener import Listener
from cause.executors.cluster.remote import RemoteProcess
from cause.executors.pool import Worker


def run_worker(pipe: Connection, *arguments: object) -> None:
    """Be a worker: say its public key, and run once it is wanted."""
    worker = TrainingWorker(*arguments)  # type: ignore[arg-type]
    pipe.send_bytes(worker.public_key())
    pipe.recv_bytes()
    worker.run()


class LocalActor:
    """Starts a worker as a process of this machine."""

    def __init__(self) -> None:
        self.process: multiprocessing.Process | None = None
        self._removed = threading.Event()

    def start(self, *arguments: object) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(  # type: ignore[assignment]
            target=run_worker, args=(theirs, *arguments), daemon=True
        )
        self.process.start()
        theirs.close()

    def public_key(self) -> bytes:
        return self._pipe.recv_bytes()

    def run(self) -> None:
        self._pipe.send_bytes(b"run")

    def remove(self) -> None:
        """Ray would end the actor here; tests see that it ends without."""
        self._removed.set()


class LocalCluster(LeasedPool):
    """A pool of such workers."""

    def __init__(self, workers: int = 1, lease: float = 2.0) -> None:
        super().__init__(workers, lease)
        self.actors = list[LocalActor]()
        self.refusals = list[str]()
        self._listener = Listener("127.0.0.1")
        self.environment = "test"

    def _prepare(self, learner: Learner, shards: int) -> None:
        if self.environment == "test":
            self.environment = learner.environment

    def _start(self) -> Worker:
        actor = self._actor()
        self.actors.append(actor)
        process = RemoteProcess(actor, self._listener, self.lease, self.refusals.append)
        process.environment = self.environment
        return Worker(process, process.pipe, pack=process.pack)

    def _actor(self) -> LocalActor:
        return LocalActor()

    def close(self) -> None:
        super().close()
        self._listener.close()
