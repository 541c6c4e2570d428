"""A shard as a chain of lessons: what a replay needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from cause.engine.learner import Learner
from cause.engine.samples import Lesson


@dataclass(frozen=True)
class Chain:
    """A shard's lessons in order, each with its seed and, where a sub-model is stored, its environment and bytes."""

    learner: Learner
    lessons: Sequence[tuple[Lesson, bytes, tuple[str, bytes] | None]]

    @property
    def shard(self) -> int:
        """Whose they are; there is at least one."""
        return self.lessons[0][0].segment.shard
