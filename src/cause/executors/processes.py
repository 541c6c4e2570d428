"""In worker processes: several shards at once, with the bits of one."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pickle import PicklingError
from threading import Lock

from cause.engine.executor import ShardError, ShardWork, Told
from cause.engine.learner import Learner
from cause.engine.samples import SegmentKey
from cause.errors import Cancelled, InputError, LearnerError, PassingError
from cause.executors import wire
from cause.executors.spawning import ScriptlessContext, context_for, needs_guard
from cause.executors.worker import Assignment, Epoch, Failed, Ready, Trained, work

MOST_WORKERS = 256
TRIES = 3
"""How often a segment is trained whose worker died; a worker may be killed by accident, but not each time."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    ready: bool = False
    learner: Learner | None = None
    shard: "_Shard | None" = None  # what it trains now
    cancelled: bool = False  # whether it was told to stop: then whatever it says or leaves unsaid counts no more
    seen: set[int] = field(default_factory=set)  # the shards whose samples it was given
    retired: bool = False  # whether it ends with its segment: it may hold samples of another shard that were forgotten
    _ending: Lock = field(default_factory=Lock)

    def end(self) -> None:
        """It is dead when this returns, whoever else is ending it at this moment, and what it said last is unsaid."""
        with self._ending:  # two who wait for one process may signal a stranger that got its number
            self.process.kill()
            self.process.join()
            if not self.pipe.closed:
                # a whole sub-model may lie in there, which whoever listens may not come to close for long
                os.dup2(self.process.sentinel, self.pipe.fileno(), inheritable=False)

    def close(self) -> None:
        with self._ending:
            self.pipe.close()


class _Shard:
    """A shard on its way: what was trained and not yet handed over, and what is left."""

    def __init__(self, order: int, given: ShardWork) -> None:
        self.order, self._given = order, given
        self.started = 0  # tasks handed to workers and done, or under way
        self.running = False
        self.deaths = 0
        self.done: list[bytes] = []
        self.number = given.shard
        self._parent: bytes | None = None

    @property
    def current(self) -> bool:
        return self._given.current()

    @property
    def waiting(self) -> bool:
        return not self.running and self.started < len(self._given.tasks) and self.current

    @property
    def samples_left(self) -> int:
        return sum(task.lesson.total for task in self._given.tasks[self.started :])

    def next(self, learner: Learner | None) -> Assignment:
        if self.started == 0:
            self._parent = self._given.parent()
        return Assignment(learner, self._parent, self._given.tasks[self.started])

    @property
    def segment(self) -> SegmentKey:
        return self._given.tasks[self.started].lesson.segment

    def tell(self, told: Told, epoch: Epoch) -> None:
        told(self._given.tasks[self.started].lesson.segment, epoch.done, epoch.total)

    def let_go(self) -> None:
        """What was trained is not wanted any more: it may have seen what is being forgotten."""
        self.done, self._parent = [], None

    def taken(self, number: int) -> bytes | None:
        """What was trained, if it is wanted still. Whoever takes it holds it alone."""
        done = self.done  # first: while the shard is current, nobody has let go of it
        if not self.current:
            self.let_go()
            return None
        blob, done[number] = done[number], b""
        return blob

    def trained(self, blob: bytes) -> None:
        self._parent = blob if self.started + 1 < len(self._given.tasks) else None
        self.done.append(blob)
        self.started += 1
        self.running, self.deaths = False, 0


class Processes:
    """Trains shards in worker processes that stay warm between calls.

    The shard with most samples left goes first. A worker that dies is replaced, and its segment trained again from
    the same parent: with the same bits, since training is a pure function. Sub-models are handed over in the order in
    which they were asked for, whoever is done first; `in_flight_bytes` says how much had to wait.

    When some of a shard's samples are forgotten, the worker that trains on them is killed, and what it held dies with
    it; another one is started at once for what comes next, and the other shards go on.

    Whose a worker is changes under a lock, and so does what is cancelled: a worker is cancelled for the shard that it
    trains at that moment, and never passes on to another. One that was cancelled is replaced, and has not died. Whoever
    trains leaves the books when it is done or dead. The lock is never held while something is asked of the caller, who
    may hold others.
    """

    def __init__(self, workers: int) -> None:
        if not 1 <= workers <= MOST_WORKERS:
            raise InputError(f"the number of workers must be from 1 to {MOST_WORKERS}, not {workers}")
        self.workers = workers
        self.in_flight_bytes = 0
        self._books = Lock()  # of all that follows
        self._stop = False  # everything: the call under way raises it, or the next one
        self._shards: list[_Shard] = []  # of the call under way
        self._context: SpawnContext = ScriptlessContext()
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []

    def train(self, learner: Learner, work: Sequence[ShardWork], told: Told) -> Generator[bytes | None, None, None]:
        shards = [_Shard(order, given) for order, given in enumerate(work)]
        self._choose_context(learner)
        with self._books:
            self._shards = shards
        try:
            for shard, given in zip(shards, work, strict=True):
                for number in range(len(given.tasks)):
                    while len(shard.done) <= number and shard.current:
                        self._hand_out(learner, shards)
                        self._end_what_is_not_current()  # it may have been handed out a moment too late
                        self._listen(told)
                        waiting = sum(len(blob) for each in shards for blob in each.done)
                        self.in_flight_bytes = max(self.in_flight_bytes, waiting)
                    yield shard.taken(number)
        finally:
            with self._books:
                self._shards = []
            for worker in list(self._busy):  # only when something went wrong, or the caller went away
                self._take_off(worker)

    def _choose_context(self, learner: Learner) -> None:
        """Let new workers import the caller's script only if the learner is of it; idle ones of another kind end."""
        context = context_for(learner)
        if type(context) is not type(self._context):
            with self._books:
                idle, self._idle, self._context = self._idle, [], context
            for worker in idle:
                worker.end()
                worker.close()

    def _hand_out(self, learner: Learner, shards: Sequence[_Shard]) -> None:
        self._raise_if_stopped()
        waiting = sorted((s for s in shards if s.waiting), key=lambda s: (-s.samples_left, s.order))
        for shard in waiting[: self.workers - len(self._busy)]:
            fresh = None if self._idle else _start(self._context)
            with self._books:
                worker = self._idle.pop() if self._idle else fresh or _start(self._context)
                worker.shard, shard.running = shard, True
                self._busy.append(worker)
            self._raise_if_stopped()  # it may have come before there was anybody to stop
            if worker.ready:
                self._send(worker, learner)
            else:
                worker.learner = learner  # sent when it says that it has started

    def _raise_if_stopped(self) -> None:
        with self._books:
            stop, self._stop = self._stop, False
        if stop:
            raise Cancelled("training was stopped")

    def _send(self, worker: _Worker, learner: Learner) -> None:
        shard = worker.shard
        assert shard is not None
        known, worker.learner, worker.ready = worker.ready and worker.learner is learner, learner, True
        with self._books:
            worker.seen.add(shard.number)
        try:
            packed = wire.pack(shard.next(None if known else learner))
        except Exception as error:
            if worker.cancelled or not shard.current:  # its samples went while they were read
                self._replace(worker)
                return
            if isinstance(error, AttributeError | TypeError | ValueError | PicklingError):
                # what pickle says of a lambda, a local class …
                raise InputError(f"the learner or its data cannot be sent to a worker process: {error}") from None
            raise ShardError(shard.segment, error) from error
        try:
            packed.send(worker.pipe)
        except OSError:
            if shard.current:
                self._buried(worker)
            else:
                self._replace(worker)

    def _listen(self, told: Told) -> None:
        """Wait until a worker says something or dies."""
        by_pipe = {worker.pipe: worker for worker in self._busy}
        heard = wait(list(by_pipe)) if by_pipe else ()
        self._raise_if_stopped()
        for pipe in heard:
            worker = by_pipe[pipe]  # type: ignore[index]
            assert worker.shard is not None
            if worker.cancelled or not worker.shard.current:
                self._replace(worker)
                continue
            try:
                message = wire.receive(worker.pipe)
            except (EOFError, OSError):  # also in the middle of a message
                self._buried(worker)
                continue
            except Exception as error:  # a learner may raise what can be made only where it was raised
                told_ = f"what a worker said cannot be read: {type(error).__name__}: {error}"
                raise ShardError(worker.shard.segment, LearnerError(told_)) from error
            if isinstance(message, Ready):
                assert worker.learner is not None
                self._send(worker, worker.learner)
            elif isinstance(message, Epoch):
                try:
                    worker.shard.tell(told, message)
                except Cancelled:
                    self._replace(worker)
            elif isinstance(message, Trained):
                self._trained(worker, message.blob)
            elif isinstance(message, Failed):
                if not worker.cancelled and worker.shard.current:
                    raise ShardError(worker.shard.segment, message.error)
                self._replace(worker)

    def _trained(self, worker: _Worker, blob: bytes) -> None:
        """A worker is done, and free for other work, unless it was cancelled a moment before."""
        with self._books:
            if not worker.cancelled:
                assert worker.shard is not None
                worker.shard.trained(blob)
                worker.shard = None
                self._busy.remove(worker)
                if not worker.retired:
                    self._idle.append(worker)
                    return
        if worker.retired and not worker.cancelled:
            worker.end()
            worker.close()
        else:
            self._replace(worker)

    def _end_what_is_not_current(self) -> None:
        for worker in list(self._busy):
            if worker.shard is not None and not worker.shard.current:
                self._replace(worker)
        for shard in self._shards:
            if not shard.current:
                shard.let_go()  # it may have been trained a moment too late

    def _replace(self, worker: _Worker) -> None:
        """What a worker trains on is no longer wanted: end it, and start another one for what comes next."""
        self._take_off(worker)
        fresh = _start(self._context)
        with self._books:
            self._idle.append(fresh)

    def _buried(self, worker: _Worker) -> None:
        """A worker is gone, or cannot be reached: its segment waits again, unless that has happened too often."""
        if worker.cancelled:
            self._replace(worker)
            return
        shard = worker.shard
        assert shard is not None
        self._take_off(worker)
        shard.deaths += 1
        if not worker.ready and worker.process.exitcode == 1 and not isinstance(self._context, ScriptlessContext):
            raise ShardError(shard.segment, needs_guard())
        if shard.deaths >= TRIES:
            how = f"exit code {worker.process.exitcode}"
            died = PassingError(f"a worker died {TRIES} times over segment {shard.segment} ({how})")
            raise ShardError(shard.segment, died)

    def _take_off(self, worker: _Worker) -> None:
        """End a busy worker. It leaves the books when it is dead: whoever cancels must not miss one that is dying."""
        worker.end()
        with self._books:
            self._busy.remove(worker)
            if worker.shard is not None:
                worker.shard.running = False
        worker.close()  # only here, by the thread that listens to it

    def cancel(self, shards: Collection[int] | None = None) -> None:
        """Kill the workers that train these shards, or any: what they hold dies with them; what they made goes, too."""
        with self._books:
            if shards is None:
                self._stop = True
            cancelled = [w for w in self._busy if w.shard and (shards is None or w.shard.number in shards)]
            for worker in cancelled:
                worker.cancelled = True
            for shard in self._shards:
                if shards is not None and shard.number in shards:
                    shard.let_go()
        for worker in cancelled:
            worker.end()

    def retire(self, shards: Collection[int]) -> None:
        """End the workers that were given samples of these shards: idle ones now, others when their segment is done.

        New ones are started when there is work.
        """
        with self._books:
            for worker in (*self._idle, *self._busy):
                worker.retired = worker.retired or any(shard in shards for shard in worker.seen)
            idle, self._idle = [w for w in self._idle if w.retired], [w for w in self._idle if not w.retired]
        for worker in idle:
            worker.end()
            worker.close()

    def close(self) -> None:
        """End the workers."""
        with self._books:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()
            worker.close()
        self.cancel()
        with self._books:
            self._stop = bool(self._shards)  # only what is under way is to stop

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be half gone
            self.close()


def _start(context: SpawnContext) -> _Worker:
    try:
        return _started(context)
    except OSError as error:
        raise InputError(
            f"cannot start a worker process: {error.strerror}: take fewer workers, or allow more"
        ) from None


def _started(context: SpawnContext) -> _Worker:
    ours, theirs = multiprocessing.Pipe()
    process = context.Process(target=work, args=(theirs,), daemon=True)
    resource_tracker.ensure_running()  # now: its start would undo the mask
    # a worker inherits the mask: Ctrl-C reaches the caller alone, who then ends the workers
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return _Worker(process, ours)
