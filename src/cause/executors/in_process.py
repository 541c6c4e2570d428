"""In this process, one segment after the other."""

from collections.abc import Collection, Generator, Sequence

from cause.engine.executor import ShardError, ShardWork, Told, train_segment
from cause.engine.learner import Learner
from cause.engine.progress import Tick
from cause.engine.samples import SegmentKey
from cause.errors import Cancelled


class Here:
    """Trains in the caller's process."""

    def __init__(self) -> None:
        self.in_flight_bytes = 0
        self._stop = False  # everything: the call under way raises it, or the next one

    def train(self, learner: Learner, work: Sequence[ShardWork], told: Told) -> Generator[bytes | None, None, None]:
        for shard in work:
            blob: bytes | None = None
            for number, task in enumerate(shard.tasks):
                if shard.current():
                    self._raise_if_stopped()
                    try:
                        parent = blob if number else shard.parent()
                        blob = train_segment(learner, parent, task, self._tick(told, task.lesson.segment))
                        self.in_flight_bytes = max(self.in_flight_bytes, len(blob))
                    except Cancelled:
                        if shard.current():
                            raise
                    except Exception as error:
                        if shard.current():
                            raise ShardError(task.lesson.segment, error) from error
                        # some of it was forgotten meanwhile: its samples went while they were read, or trained on
                yield blob if shard.current() else None

    def _tick(self, told: Told, segment: SegmentKey) -> Tick:
        def tick(done: int, total: int) -> None:
            self._raise_if_stopped()
            told(segment, done, total)

        return tick

    def _raise_if_stopped(self) -> None:
        stop, self._stop = self._stop, False
        if stop:
            raise Cancelled("training was stopped")

    def cancel(self, shards: Collection[int] | None = None) -> None:
        """A segment under way hears of it after its epoch; of shards, by asking whether its work is current."""
        self._stop = self._stop or shards is None

    def retire(self, shards: Collection[int]) -> None:
        """Nothing: the memory is the caller's."""

    def close(self) -> None:
        self._stop = False
