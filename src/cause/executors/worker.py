"""A worker process: one thread, one segment at a time, no state that outlives a segment."""

import contextlib
import gc
from dataclasses import dataclass
from multiprocessing.connection import Connection

from cause.common.zeroize import overwrite_freed_memory, sweep
from cause.engine.executor import Task, train_segment
from cause.engine.learner import Learner
from cause.errors import IN_WORKER, CauseError, LearnerError, PassingError, is_passing
from cause.executors import wire

AT_ONCE_S = 0.01
"""A worker whose next order comes within this time does not wait."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has started."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch is done."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Trained:
    """The segment is done."""

    blob: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """The learner raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Assignment:
    """What to train; the learner only when it is not the one of the last time."""

    learner: Learner | None
    parent: bytes | None
    task: Task


def work(pipe: Connection) -> None:
    """Train what comes through the pipe until it is closed."""
    overwrite_freed_memory()
    learner: Learner | None = None
    shard: int | None = None
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # whoever asked is gone
        wire.send(pipe, Ready())
        while True:
            learner, shard = _served(pipe, learner, shard)
            if not pipe.poll(AT_ONCE_S):
                gc.collect()  # now: networks lie in circles, and whoever waits never comes to collect them


def _served(pipe: Connection, learner: Learner | None, shard: int | None) -> tuple[Learner, int]:
    """One order. Nothing of it outlives this call: a worker that waits for the next one holds nobody's samples.

    Before a segment of another shard than the last one, what that left in reference cycles is collected: its samples
    may be forgotten while this one is trained.
    """
    order: Assignment = wire.receive(pipe)
    own = order.task.lesson.segment.shard
    if shard is not None and own != shard:
        sweep()
    learner = order.learner or learner
    assert learner is not None
    if order.learner is not None:
        gc.unfreeze()
        gc.freeze()  # what it imported is left alone: with torch collecting takes 40 ms then, not 150
    answer = _answer(learner, order, pipe)
    try:
        packed = wire.pack(answer)
    except Exception as error:  # what a learner makes, or raises, need not be fit for it
        packed = wire.pack(Failed(_told(error)))
    packed.send(pipe)
    return learner, own


def _answer(learner: Learner, order: Assignment, pipe: Connection) -> Trained | Failed:
    try:
        return Trained(
            train_segment(learner, order.parent, order.task, lambda *epochs: wire.send(pipe, Epoch(*epochs)))
        )
    except (BrokenPipeError, ConnectionResetError):
        raise
    except CauseError as error:
        return Failed(error)
    except Exception as error:  # a user's module may raise anything, also what cannot be sent
        return Failed(_told(error))


def _told(error: Exception) -> LearnerError:
    kind = PassingError if is_passing(error) else LearnerError
    return kind(f"{IN_WORKER}{type(error).__name__}: {error}")
