"""A shard's lessons and stored sub-models: everything that a replay needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from cause.engine.learner import Learner
from cause.engine.samples import Lesson


@dataclass(frozen=True)
class Chain:
    """A shard's lessons in order, each with its seed and, where a sub-model is stored, its environment and bytes."""

    learner: Learner
    lessons: Sequence[tuple[Lesson, bytes, tuple[str, bytes] | None]]
    environment: str
    """The environment of the shard: only a replay in it can be compared."""

    @property
    def shard(self) -> int:
        """The number of the shard; there must be a lesson."""
        return self.lessons[0][0].segment.shard
