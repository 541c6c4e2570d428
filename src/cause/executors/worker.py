"""The worker process: one thread, one segment at a time, no samples kept after a segment."""

import contextlib
import gc
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

from cause.common.zeroize import overwrite_freed_memory, sweep
from cause.engine.executor import Task, train_segment
from cause.engine.learner import Learner
from cause.errors import IN_WORKER, CauseError, LearnerError, PassingError, is_passing
from cause.executors import wire

AT_ONCE_S = 0.01
"""A worker collects garbage if its next assignment does not come within this time."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Message: the worker has started."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Message: an epoch of the segment is done."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Trained:
    """Message: the segment is trained; with the encoded sub-model."""

    blob: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """Message: the learner raised an error."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker is to train."""

    learner: Learner | None
    """None if it is the learner of the worker's last assignment."""
    parent: bytes | None
    """The encoded sub-model to go on from; None to start from scratch."""
    task: Task


Message = Ready | Epoch | Trained | Failed
"""What a worker sends."""


class Link(Protocol):
    """A worker's connection to the process that gives it work. All methods raise `EOFError` or `OSError` at its end."""

    def receive(self) -> Assignment:
        """Wait for the next assignment."""

    def pending(self, seconds: float) -> bool:
        """Wait so long at most for an assignment, and return whether there is one."""

    def send(self, message: Message) -> None:
        """Send a message; if the message cannot be packed, raise another error before any of it is sent."""


class PipeLink:
    """A link through a pipe of this machine."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def receive(self) -> Assignment:
        """Wait for the next assignment."""
        assignment: Assignment = wire.receive(self._pipe)
        return assignment

    def pending(self, seconds: float) -> bool:
        """Wait so long at most for an assignment, and return whether there is one."""
        return self._pipe.poll(seconds)

    def send(self, message: Message) -> None:
        """Send a message."""
        wire.send(self._pipe, message)


def work(pipe: Connection) -> None:
    """Train every `Assignment` that comes through the pipe, until the pipe is closed."""
    serve(PipeLink(pipe))


def serve(link: Link) -> None:
    """Train every `Assignment` that comes through a link, until the other end is closed."""
    overwrite_freed_memory()
    learner: Learner | None = None
    shard: int | None = None
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the caller ended
        link.send(Ready())
        while True:
            learner, shard = _serve(link, learner, shard)
            if not link.pending(AT_ONCE_S):
                gc.collect()  # modules form reference cycles: collect them before blocking


def _serve(link: Link, learner: Learner | None, last_shard: int | None) -> tuple[Learner, int]:
    """Receive and train one assignment; return its learner and shard. No sample of it is referred to afterwards.

    Before a segment of another shard than the last one, reference cycles are collected: they may hold samples of the
    last shard, which may be forgotten while this one is trained.
    """
    assignment = link.receive()
    shard = assignment.task.lesson.segment.shard
    if last_shard is not None and shard != last_shard:
        sweep()
    learner = assignment.learner or learner
    assert learner is not None
    if assignment.learner is not None:
        gc.unfreeze()
        gc.freeze()  # imported objects are left out of collections, which with torch take 40 ms then, not 150
    answer = _answer(learner, assignment, link)
    try:
        link.send(answer)
    except OSError:
        raise
    except Exception as error:  # a learner's state or error need not be picklable
        link.send(Failed(_as_learner_error(error)))
    return learner, shard


def _answer(learner: Learner, assignment: Assignment, link: Link) -> Trained | Failed:
    def tick(done: int, total: int) -> None:
        link.send(Epoch(done, total))

    try:
        return Trained(train_segment(learner, assignment.parent, assignment.task, tick))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except CauseError as error:
        return Failed(error)
    except Exception as error:  # a user's module may raise anything, also errors that cannot be pickled
        return Failed(_as_learner_error(error))


def _as_learner_error(error: Exception) -> LearnerError:
    kind = PassingError if is_passing(error) else LearnerError
    return kind(f"{IN_WORKER}{type(error).__name__}: {error}")
