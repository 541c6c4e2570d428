"""In this process, one segment after the other."""

from collections.abc import Collection, Generator, Sequence
from functools import partial

from cause.executors.base import ShardWork, Told, train_segment
from cause.learners import Learner


class Here:
    """Trains in the caller's process."""

    in_flight_bytes = 0

    def train(self, learner: Learner, work: Sequence[ShardWork], told: Told) -> Generator[bytes | None, None, None]:
        for shard in work:
            blob: bytes | None = None
            for number, task in enumerate(shard.tasks):
                if shard.current():
                    try:
                        parent = blob if number else shard.parent()
                        blob = train_segment(learner, parent, task, partial(told, task.lesson.segment))
                        self.in_flight_bytes = max(self.in_flight_bytes, len(blob))
                    except Exception:
                        if shard.current():
                            raise
                        # some of it was forgotten meanwhile: its samples went while they were read, or trained on
                yield blob if shard.current() else None

    def cancel(self, shards: Collection[int] | None = None) -> None:
        """Nothing to do: a segment under way hears of it after its epoch."""

    def close(self) -> None:
        pass
