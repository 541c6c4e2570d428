"""Gives shards to workers, several at once, with the same bits as one after the other."""

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pickle import PicklingError
from threading import Lock
from typing import Any, Protocol, Self

from cause.common.zeroize import flush_allocator_caches
from cause.engine.executor import OnEpoch, ShardError, ShardWork
from cause.engine.learner import Learner
from cause.engine.samples import SegmentKey
from cause.errors import AbsentEnvironmentError, Cancelled, InputError, LearnerError, PassingError
from cause.executors import wire
from cause.executors.worker import Assignment, Epoch, Failed, Ready, Trained

TRIES = 3
"""How often a segment is tried whose worker dies: once may be an accident, each time is the segment's fault."""


UNSENDABLE = (AttributeError, TypeError, ValueError, PicklingError)
"""Pickle's errors, for a lambda, a local class …"""


class Process(Protocol):
    """The process of a worker, on this machine or on another one."""

    @property
    def sentinel(self) -> int:
        """A descriptor that is readable once the process has ended."""

    @property
    def exitcode(self) -> int | None:
        """The exit code; None while the process runs, or if the code is unknown."""

    def kill(self) -> None:
        """End the process, without waiting."""

    def join(self) -> None:
        """Wait until the process has ended and its memory is freed."""


class Sendable(Protocol):
    """A message that is ready to be sent."""

    def send(self, pipe: Connection) -> None:
        """Send the message; an `OSError` if the worker has ended."""


@dataclass
class Worker:
    """A worker process and what it is doing."""

    process: Process
    pipe: Connection
    pack: Callable[[Any], Sendable] = wire.pack
    environment: str | None = None  # that of its machine, if the pool has asked for it
    ready: bool = False
    learner: Learner | None = None
    shard: "ActiveShard | None" = None  # the shard that it trains now
    cancelled: bool = False  # if true, its messages are ignored
    seen: set[int] = field(default_factory=set)  # the shards whose samples it received
    retired: bool = False  # ends with its segment: its memory may hold forgotten samples of another shard
    _ending: Lock = field(default_factory=Lock)

    def kill(self) -> None:
        """Begin to end the worker, without waiting; `end` waits."""
        if self._ending.acquire(blocking=False):  # else another thread is ending it already
            try:
                self.process.kill()
            finally:
                self._ending.release()

    def end(self) -> None:
        """Kill the worker and discard unread output. Several threads may call this at once."""
        with self._ending:  # or a second kill could reach another process that got the same number
            self.process.kill()
            self.process.join()
            if not self.pipe.closed:
                # the pipe may hold a whole sub-model, and the thread that closes it may be busy for long
                os.dup2(self.process.sentinel, self.pipe.fileno(), inheritable=False)

    def close(self) -> None:
        """Close the pipe."""
        with self._ending:
            self.pipe.close()


class ActiveShard:
    """A shard that is being trained: its finished sub-models that wait to be yielded, and the tasks left."""

    def __init__(self, order: int, work: ShardWork) -> None:
        self.order, self._work = order, work
        self.started = 0  # the number of finished tasks, and so the index of the next one or of the one under way
        self.running = False
        self.deaths = 0
        self.done: list[bytes] = []
        self.number = work.shard
        self._parent: bytes | None = None

    @property
    def current(self) -> bool:
        """Whether none of its samples was forgotten since the training began."""
        return self._work.current()

    @property
    def waiting(self) -> bool:
        """Whether its next task can be given to a worker."""
        return not self.running and self.started < len(self._work.tasks) and self.current

    @property
    def samples_left(self) -> int:
        """The number of samples of the tasks that are not done."""
        return sum(task.lesson.total for task in self._work.tasks[self.started :])

    @property
    def environment(self) -> str | None:
        """The environment that the shard must be trained in; None: any."""
        return self._work.tasks[0].environment

    def before_sending(self, seconds: float) -> None:
        """Record that samples leave this machine for a worker that may outlive this process by so many seconds."""
        self._work.before_sending(seconds)

    def next(self, learner: Learner | None) -> Assignment:
        """Return the next task as an assignment; without the learner if the worker has it."""
        if self.started == 0:
            self._parent = self._work.parent()
        return Assignment(learner, self._parent, self._work.tasks[self.started])

    @property
    def segment(self) -> SegmentKey:
        """The segment of the task that is next or under way."""
        return self._work.tasks[self.started].lesson.segment

    def discard(self) -> None:
        """Drop the trained sub-models: they may have seen samples that are being forgotten."""
        self.done, self._parent = [], None

    def take(self, number: int) -> bytes | None:
        """Return a task's sub-model and drop this object's reference; None if the work is no longer current."""
        done = self.done  # before the check: `discard` replaces the list only once the work is not current
        if not self.current:
            self.discard()
            return None
        blob, done[number] = done[number], b""
        return blob

    def finish(self, blob: bytes) -> None:
        """Record the sub-model of the task under way."""
        self._parent = blob if self.started + 1 < len(self._work.tasks) else None
        self.done.append(blob)
        self.started += 1
        self.running, self.deaths = False, 0


class WorkerPool(ABC):
    """Trains shards on workers that stay warm between calls.

    The shard with most samples left goes first. A worker that dies is replaced, and its segment trained again from
    the same parent: with the same bits, since training is a pure function. Sub-models are yielded in the order of the
    tasks, whichever worker is done first; `in_flight_bytes` says how much had to wait.

    When samples of a shard are forgotten, the worker that trains on them is killed, and its memory with it. Another one
    is started at once, and the other shards go on.

    A lock protects which worker trains which shard, and which workers are cancelled. A worker is cancelled for the
    shard that it trains at that moment and never gets another one. A cancelled worker is replaced; that does not count
    as a death. A worker stays in the list of busy ones until it is done or dead. The lock is never held while the
    caller's functions are called, since the caller may hold other locks.

    Parameters
    ----------
    workers
        The number of workers at one time.
    """

    tries = TRIES
    """How often a segment is tried whose worker dies."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.in_flight_bytes = 0
        self._lock = Lock()  # protects everything below
        self._stop = False  # if true, the running call of `train` raises `Cancelled`, or the next one does
        self._shards: list[ActiveShard] = []  # of the running call of `train`
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []

    @abstractmethod
    def _start(self) -> Worker:
        """Start a worker, which sends `Ready` once it can train; an `InputError` if that is refused."""

    def _start_for(self, shard: ActiveShard) -> Worker:
        """Start a worker that can train a shard; an `AbsentEnvironmentError` if there is no machine for it."""
        return self._start()

    def _suits(self, worker: Worker, shard: ActiveShard) -> bool:
        """Return whether a worker can train a shard: whether its environment is the shard's."""
        return True

    def _has_room(self, shard: ActiveShard) -> bool:
        """Return whether one more worker that can train a shard may be busy."""
        return True

    def environments(self, learner: Learner) -> Mapping[str, int]:
        """Return the environments that this executor trains in, each with the number of workers there is room for."""
        return {learner.environment: self.workers}

    def _prepare(self, learner: Learner, shards: int) -> None:
        """Get ready to train that many shards with this learner."""

    def _refused(self, worker: Worker) -> Exception | None:
        """Return the error to raise for a worker that cannot start at all; None if another one may be tried."""
        return None

    def train(
        self, learner: Learner, work: Sequence[ShardWork], on_epoch: OnEpoch
    ) -> Generator[bytes | None, None, None]:
        """Yield the encoded sub-model of every task (see `Executor.train`)."""
        shards = [ActiveShard(order, shard_work) for order, shard_work in enumerate(work)]
        self._prepare(learner, len(shards))
        with self._lock:
            self._shards = shards
        try:
            for shard, shard_work in zip(shards, work, strict=True):
                for number in range(len(shard_work.tasks)):
                    while len(shard.done) <= number and shard.current:
                        self._assign(learner, shards)
                        self._stop_outdated()  # a shard's samples may be forgotten just before it is assigned
                        self._listen(on_epoch)
                        waiting_bytes = sum(len(blob) for other in shards for blob in other.done)
                        self.in_flight_bytes = max(self.in_flight_bytes, waiting_bytes)
                    yield shard.take(number)
            self._raise_if_stopped()  # a stop after the last segment is not one of the next call
        except GeneratorExit:
            with self._lock:
                self._stop = False  # the caller has ended the call that was to be stopped
            raise
        finally:
            with self._lock:
                self._shards = []
            for worker in list(self._busy):  # after an error, or if the caller closed the generator
                self._remove(worker)

    def _assign(self, learner: Learner, shards: Sequence[ActiveShard]) -> None:
        """Give waiting shards to workers, as many as are free."""
        self._raise_if_stopped()
        self._reassign(learner)
        waiting = sorted((s for s in shards if s.waiting), key=lambda s: (-s.samples_left, s.order))
        for shard in waiting:
            if len(self._busy) >= self.workers:
                break
            if not self._has_room(shard):
                continue
            fresh = None if self._idle_for(shard) else self._started_for(shard)
            with self._lock:
                worker = self._idle_for(shard) or fresh or self._started_for(shard)
                if worker in self._idle:
                    self._idle.remove(worker)
                worker.shard, shard.running = shard, True
                self._busy.append(worker)
            self._raise_if_stopped()  # `cancel` may have run before this worker was among the busy ones
            if worker.ready:
                self._send(worker, learner)
            else:
                worker.learner = learner  # sent once the worker reports that it has started

    def _idle_for(self, shard: ActiveShard) -> Worker | None:
        """Return an idle worker that can train a shard, if possible one that has started; None if there is none."""
        suiting = [worker for worker in self._idle if self._suits(worker, shard)]
        return max(suiting, key=lambda worker: worker.ready, default=None)

    def _started_for(self, shard: ActiveShard) -> Worker:
        try:
            return self._start_for(shard)
        except AbsentEnvironmentError as error:
            raise ShardError(shard.segment, error) from error

    def _reassign(self, learner: Learner) -> None:
        """Give shards whose worker may never start to idle workers."""

    def _raise_if_stopped(self) -> None:
        with self._lock:
            stop, self._stop = self._stop, False
        if stop:
            raise Cancelled("training was stopped")

    def _send(self, worker: Worker, learner: Learner) -> None:
        shard = worker.shard
        assert shard is not None
        has_learner, worker.learner, worker.ready = worker.ready and worker.learner is learner, learner, True
        with self._lock:
            worker.seen.add(shard.number)
        try:
            packed = worker.pack(shard.next(None if has_learner else learner))
        except Exception as error:
            if worker.cancelled or not shard.current:  # its samples were destroyed while they were read
                self._replace(worker)
                return
            if isinstance(error, UNSENDABLE):
                raise unsendable(error) from None
            raise ShardError(shard.segment, error) from error
        try:
            packed.send(worker.pipe)
        except OSError:
            if shard.current:
                self._handle_death(worker)
            else:
                self._replace(worker)
        finally:
            del packed
            flush_allocator_caches()  # this thread may wait for long, and small samples may be forgotten meanwhile

    def _listen(self, on_epoch: OnEpoch) -> None:
        """Wait until a worker sends a message or dies, and handle all messages."""
        by_pipe = {worker.pipe: worker for worker in self._busy}
        readable = wait(list(by_pipe)) if by_pipe else ()
        self._raise_if_stopped()
        for pipe in readable:
            worker = by_pipe[pipe]  # type: ignore[index]
            assert worker.shard is not None
            if worker.cancelled or not worker.shard.current:
                self._replace(worker)
                continue
            try:
                message = wire.receive(worker.pipe)
            except (EOFError, OSError):  # also in the middle of a message
                self._handle_death(worker)
                continue
            except Exception as error:  # a learner may raise an error that only the worker can unpickle
                unreadable = f"a worker's message cannot be read: {type(error).__name__}: {error}"
                raise ShardError(worker.shard.segment, LearnerError(unreadable)) from error
            if isinstance(message, Ready):
                assert worker.learner is not None
                self._send(worker, worker.learner)
            elif isinstance(message, Epoch):
                try:
                    on_epoch(worker.shard.segment, message.done, message.total)
                except Cancelled:
                    self._replace(worker)
            elif isinstance(message, Trained):
                self._finish(worker, message.blob)
            elif isinstance(message, Failed):
                if not worker.cancelled and worker.shard.current:
                    raise ShardError(worker.shard.segment, message.error)
                self._replace(worker)

    def _finish(self, worker: Worker, blob: bytes) -> None:
        """Take a worker's sub-model and make the worker idle, unless it was cancelled or retired."""
        with self._lock:
            if not worker.cancelled:
                assert worker.shard is not None
                worker.shard.finish(blob)
                worker.shard = None
                self._busy.remove(worker)
                if not worker.retired:
                    self._idle.append(worker)
                    return
        if worker.retired and not worker.cancelled:
            self._dismiss(worker)
            worker.close()
        else:
            self._replace(worker)

    def _stop_outdated(self) -> None:
        """End the workers of shards whose work is no longer current, and drop what was trained of it."""
        for worker in list(self._busy):
            if worker.shard is not None and not worker.shard.current:
                self._replace(worker)
        for shard in self._shards:
            if not shard.current:
                shard.discard()  # a sub-model may have arrived after `cancel`

    def _replace(self, worker: Worker) -> None:
        """End a busy worker whose result is of no use, and start an idle one in its place."""
        shard = worker.shard
        self._remove(worker)
        assert shard is not None
        try:
            fresh = self._start_for(shard)
        except AbsentEnvironmentError:
            return  # the shard fails when it is assigned again
        with self._lock:
            self._idle.append(fresh)

    def _handle_death(self, worker: Worker) -> None:
        """Put a dead worker's segment back among the waiting ones; raise if its workers died too often."""
        if worker.cancelled:
            self._replace(worker)
            return
        shard = worker.shard
        assert shard is not None
        self._remove(worker)
        shard.deaths += 1
        refused = self._refused(worker)
        if refused is not None:
            raise ShardError(shard.segment, refused)
        if shard.deaths >= self.tries:
            died = f"a worker died {self.tries} times over segment {shard.segment} ({self._end_of(worker)})"
            raise ShardError(shard.segment, PassingError(died))

    def _end_of(self, worker: Worker) -> str:
        """Return how a worker that has died ended, for a message."""
        return f"exit code {worker.process.exitcode}"

    def _dismiss(self, worker: Worker) -> None:
        """End a worker, and wait until it has ended."""
        worker.end()

    def _remove(self, worker: Worker) -> None:
        """End a busy worker. It stays in the list until it is dead, so that `cancel` does not miss it."""
        self._dismiss(worker)
        with self._lock:
            self._busy.remove(worker)
            if worker.shard is not None:
                worker.shard.running = False
        worker.close()  # only by the thread that listens to it

    def cancel(self, shards: Collection[int] | None = None) -> None:
        """Kill the workers that train these shards, or all workers, and drop what was trained of the shards."""
        with self._lock:
            if shards is None:
                self._stop = True
            cancelled = [w for w in self._busy if w.shard and (shards is None or w.shard.number in shards)]
            for worker in cancelled:
                worker.cancelled = True
            for shard in self._shards:
                if shards is not None and shard.number in shards:
                    shard.discard()
        for worker in cancelled:
            worker.kill()  # all of them before waiting for the first
        for worker in cancelled:
            worker.end()

    def retire(self, shards: Collection[int]) -> None:
        """End the workers that received samples of these shards: idle ones now, busy ones after their segment.

        New ones are started when there is work.
        """
        with self._lock:
            for worker in (*self._idle, *self._busy):
                worker.retired = worker.retired or any(shard in shards for shard in worker.seen)
            idle, self._idle = [w for w in self._idle if w.retired], [w for w in self._idle if not w.retired]
        _end_all(idle)

    def _end_idle(self) -> None:
        """End the idle workers."""
        with self._lock:
            idle, self._idle = self._idle, []
        _end_all(idle)

    def close(self) -> None:
        """End all workers; a running call of `train` raises `Cancelled`."""
        self._end_idle()
        self.cancel()
        with self._lock:
            self._stop = bool(self._shards)  # stop the running call only, not the next one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be shutting down
            self.close()


def unsendable(error: Exception) -> InputError:
    """Return the error for something that pickle refuses."""
    return InputError(f"the learner or its data cannot be sent to a worker process: {error}")


def _end_all(workers: Collection[Worker]) -> None:
    """End idle workers: kill all of them before waiting for the first."""
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.end()
        worker.close()
