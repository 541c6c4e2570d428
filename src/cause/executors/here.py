"""In this process, one segment after the other."""

from collections.abc import Generator, Sequence
from functools import partial

from cause.executors.base import ShardWork, Told, train_segment
from cause.learners import Learner


class Here:
    """Trains in the caller's process."""

    in_flight_bytes = 0

    def train(self, learner: Learner, work: Sequence[ShardWork], told: Told) -> Generator[bytes, None, None]:
        for shard in work:
            blob = shard.parent()
            for task in shard.tasks:
                blob = train_segment(learner, blob, task, partial(told, task.lesson.segment))
                self.in_flight_bytes = max(self.in_flight_bytes, len(blob))
                yield blob

    def cancel(self) -> None:
        """Nothing to do: a segment under way hears of it after its epoch."""

    def close(self) -> None:
        pass
