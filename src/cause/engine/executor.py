"""The protocol of executors, and their tasks: shards are independent, a shard's segments are trained in order."""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cause.engine.host_settings import own_error_modes
from cause.engine.learner import Learner
from cause.engine.progress import Tick
from cause.engine.samples import Lesson, SegmentKey
from cause.errors import AbsentEnvironmentError, Cancelled

MOST_WORKERS = 256
"""The most worker processes of a device."""
OnEpoch = Callable[[SegmentKey, int, int], None]
"""Called with a segment, the number of its epochs that are done, and the number of all its epochs."""


def nothing_to_record(seconds: float) -> None:
    """Record nothing: these samples belong to no home."""


def cancel_unless(current: bool) -> None:
    """Raise `Cancelled` if samples were forgotten while they were trained on; `current` says that none were."""
    if not current:
        raise Cancelled("the data was forgotten while it was trained on")


@dataclass(frozen=True, slots=True)
class Task:
    """One segment to train: its samples, its seed, and the environment of its shard."""

    lesson: Lesson
    seed: bytes
    environment: str | None = None
    """The environment that it must be trained in (`Learner.environment`); None: any."""


@dataclass(frozen=True, slots=True)
class ShardWork:
    """A shard's segments in order, and where the first of them starts from."""

    shard: int
    parent: Callable[[], bytes | None]
    """Reads the stored sub-model that the first task starts from, just before it is trained; None from scratch."""
    tasks: Sequence[Task]
    current: Callable[[], bool]
    """Returns false once some of the samples were forgotten; called before each task."""
    before_sending: Callable[[float], None] = nothing_to_record
    """Called before samples leave this machine, with the seconds that a worker may outlive this process."""


class ShardError(Exception):
    """A segment that cannot be trained. Other shards are not affected.

    Parameters
    ----------
    segment
        The segment.
    cause
        The error of the training.
    """

    def __init__(self, segment: SegmentKey, cause: Exception) -> None:
        super().__init__(f"segment {segment}: {cause}")
        self.segment, self.shard, self.cause = segment, segment.shard, cause


class Executor(Protocol):
    """Trains segments. It decides where and when; the bits do not depend on it."""

    @property
    def in_flight_bytes(self) -> int:
        """The most bytes of trained sub-models that ever waited to be yielded at one time."""

    def environments(self, learner: Learner) -> Mapping[str, int]:
        """Return the environments that this executor trains in, each with the number of workers there is room for."""

    def train(
        self, learner: Learner, work: Sequence[ShardWork], on_epoch: OnEpoch
    ) -> Generator[bytes | None, None, None]:
        """Yield the encoded sub-model of every task, in the order of `work`.

        Parameters
        ----------
        learner
            What trains.
        work
            The shards with their tasks.
        on_epoch
            Called after each epoch. It may raise `Cancelled`, which ends the training of that shard.

        Yields
        ------
        bytes or None
            None for tasks that were not trained because their shard's work is no longer current.

        Raises
        ------
        ShardError
            If a segment cannot be trained.
        Cancelled
            If all training was stopped.
        """

    def cancel(self, shards: Collection[int] | None = None) -> None:
        """Stop training some shards, or all; may be called from any thread.

        Workers on other machines that hold samples of these shards have ended when this returns.

        Parameters
        ----------
        shards
            Shards whose work is no longer current; the others go on. If None, everything stops: `train` raises
            `Cancelled`, or the next call of `train` does if none is running.
        """

    def retire(self, shards: Collection[int]) -> None:
        """Free memory that may hold copies of samples of these shards, some of which were forgotten."""

    def close(self) -> None:
        """Free all resources; the executor can be used again."""


def train_segment(learner: Learner, parent: bytes | None, task: Task, tick: Tick) -> bytes:
    """Train one segment from the encoded parent (None: from scratch) and return the encoded sub-model.

    Raises
    ------
    AbsentEnvironmentError
        If the task belongs to another environment than that of this process: the bits would be others.
    """
    if task.environment not in (None, learner.environment):
        raise AbsentEnvironmentError(
            f"segment {task.lesson.segment} is trained in another environment ({task.environment}) than this one "
            f"({learner.environment})"
        )
    with own_error_modes():
        state = None if parent is None else learner.decode(parent)
        return learner.encode(learner.train(state, task.lesson, task.seed, tick))
