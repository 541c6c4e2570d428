"""Ends workers that live by a lease: an erasure waits for all that may hold its samples, trainings wait for none."""

import threading
from collections.abc import Collection, Generator, Sequence

from cause.engine.executor import OnEpoch, ShardWork
from cause.engine.learner import Learner
from cause.executors.cluster.remote import RemoteProcess
from cause.executors.pool import Worker, WorkerPool

IDLE_S = 10.0
"""How long workers wait for the next training. They occupy room on the cluster that other devices may need."""


class LeasedPool(WorkerPool):
    """A pool of workers on other machines.

    A worker that died or is ended may live on until its lease is over, and meanwhile hold samples. Trainings do not
    wait for that. `cancel` and `retire`, which an erasure calls, wait for every worker that received samples of the
    shards.

    Parameters
    ----------
    workers
        The number of workers at one time.
    lease
        The seconds that a worker may live without the device.
    """

    def __init__(self, workers: int, lease: float) -> None:
        super().__init__(workers)
        self.lease = lease
        # workers that were ordered to end and may not have ended yet, with the shards whose samples they received
        self._dying: list[tuple[RemoteProcess, set[int]]] = []
        self._idle_timer: threading.Timer | None = None  # ends the idle workers

    def train(
        self, learner: Learner, work: Sequence[ShardWork], on_epoch: OnEpoch
    ) -> Generator[bytes | None, None, None]:
        """Yield the encoded sub-model of every task (see `Executor.train`).

        Workers that are idle for `IDLE_S` after it end: others may wait for their room on the cluster.
        """
        self._keep_idle()
        try:
            yield from super().train(learner, work, on_epoch)
        finally:
            self._release_idle_later()

    def _release_idle_later(self) -> None:
        """End the idle workers in `IDLE_S`, unless a training begins."""
        self._keep_idle()
        timer = threading.Timer(IDLE_S, self._end_if_unused)
        timer.daemon = True
        with self._lock:
            self._idle_timer = timer
        timer.start()

    def _keep_idle(self) -> None:
        """Let idle workers stay."""
        with self._lock:
            timer, self._idle_timer = self._idle_timer, None
        if timer is not None:
            timer.cancel()

    def _end_if_unused(self) -> None:
        """End the idle workers, unless a training has begun."""
        with self._lock:
            if self._idle_timer is not threading.current_thread():
                return
        self._end_idle()

    def _dismiss(self, worker: Worker) -> None:
        """Tell a worker to end without waiting: the other shards go on. `cancel` and `retire` wait for it."""
        worker.kill()
        assert isinstance(worker.process, RemoteProcess)
        with self._lock:
            self._dying = [pair for pair in self._dying if not pair[0].has_ended] + [(worker.process, worker.seen)]

    def _reassign(self, learner: Learner) -> None:
        """Give shards whose worker has not started yet to idle workers that have.

        A worker waits for room on the cluster, and if a node has left, the idle ones may occupy all that is left.
        """
        moved = []
        with self._lock:
            for starting in [worker for worker in self._busy if not (worker.ready or worker.cancelled)]:
                assert starting.shard is not None
                ready = self._idle_for(starting.shard)
                if ready is None or not ready.ready:
                    continue
                ready.shard, starting.shard = starting.shard, None
                self._idle.remove(ready)
                self._busy.remove(starting)
                self._busy.append(ready)
                self._idle.append(starting)
                moved.append(ready)
        self._raise_if_stopped()  # `cancel` may have run before these workers were among the busy ones
        for worker in moved:
            self._send(worker, learner)

    def _send(self, worker: Worker, learner: Learner) -> None:
        """Let the home record that samples leave this machine, and send them."""
        assert worker.shard is not None
        worker.shard.before_sending(self.lease)
        super()._send(worker, learner)

    def cancel(self, shards: Collection[int] | None = None) -> None:
        """End the workers that hold samples of these shards, or all; wait for each of them, or until its lease is over.

        Idle ones end as well: a receipt that is signed afterwards is right to say that the samples are destroyed.
        """
        super().cancel(shards)
        if shards is None:
            self._await(None)
        else:
            self.retire(shards)

    def retire(self, shards: Collection[int]) -> None:
        """End every worker that received samples of these shards, also one that trains another shard now."""
        with self._lock:
            busy = [worker for worker in self._busy if any(shard in shards for shard in worker.seen)]
            for worker in busy:
                worker.cancelled = True  # what it trains now is trained again by another one
        for worker in busy:
            worker.kill()
        super().retire(shards)
        for worker in busy:
            worker.end()
        self._await(shards)

    def _end_of(self, worker: Worker) -> str:
        assert isinstance(worker.process, RemoteProcess)
        return worker.process.failure or "it ended without a word"

    def _await(self, shards: Collection[int] | None) -> None:
        """Wait for the workers that were ordered to end and have received samples of these shards, or for all."""
        with self._lock:
            dying = [process for process, seen in self._dying if shards is None or not seen.isdisjoint(shards)]
        for process in dying:
            process.join()

    def close(self) -> None:
        """End all workers; a running call of `train` raises `Cancelled`."""
        self._keep_idle()
        super().close()
        self._await(None)
