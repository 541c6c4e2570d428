"""The seam of all executors: shards are independent, a shard's segments follow one another."""

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cause.engine.learner import Learner
from cause.engine.progress import Tick
from cause.engine.samples import Lesson, SegmentKey

Told = Callable[[SegmentKey, int, int], None]
"""Called with a segment, how many of its epochs are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Task:
    """One segment to train."""

    lesson: Lesson
    seed: bytes


@dataclass(frozen=True, slots=True)
class ShardWork:
    """A shard's segments in order, and where the first of them starts from."""

    shard: int
    parent: Callable[[], bytes | None]
    """Reads the stored sub-model before the first task, when its turn comes."""
    tasks: Sequence[Task]
    current: Callable[[], bool]
    """Whether this is still what is to be trained; asked before each task. No longer once some of it was forgotten."""


class ShardError(Exception):
    """A shard's segment cannot be trained; its cause says why. The other shards have nothing to do with it."""

    def __init__(self, segment: SegmentKey, cause: Exception) -> None:
        super().__init__(f"segment {segment}: {cause}")
        self.segment, self.shard, self.cause = segment, segment.shard, cause


class Executor(Protocol):
    """Trains what it is given. Where and when is its own affair; the bits are not."""

    @property
    def in_flight_bytes(self) -> int:
        """The most bytes of sub-models that were ever trained and not yet handed over."""

    def train(self, learner: Learner, work: Sequence[ShardWork], told: Told) -> Generator[bytes | None, None, None]:
        """The encoded sub-model of every task: shard after shard as given, each shard's in order.

        None for the tasks of a shard that are not trained, because the shard's work is no longer current. Raises
        `ShardError` when one cannot be trained.
        """

    def cancel(self, shards: Collection[int] | None = None) -> None:
        """Stop what is being trained, from any thread: of shards whose work is no longer current, the others go on.

        Without shards everything stops: `train` raises `Cancelled` instead of training on, and if nothing is being
        trained at this moment, the next call does, once.
        """

    def retire(self, shards: Collection[int]) -> None:
        """Give up memory that may hold copies of samples of these shards, some of which were forgotten."""

    def close(self) -> None:
        """Give back what it holds; it can be used again."""


def train_segment(learner: Learner, parent: bytes | None, task: Task, tick: Tick) -> bytes:
    """One application of the pure function: it starts from decoded bytes and ends in encoded ones."""
    state = None if parent is None else learner.decode(parent)
    return learner.encode(learner.train(state, task.lesson, task.seed, tick))
