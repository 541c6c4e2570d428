"""Trains in the calling process, one segment after the other."""

from collections.abc import Collection, Generator, Mapping, Sequence

from cause.engine.executor import OnEpoch, ShardError, ShardWork, train_segment
from cause.engine.learner import Learner
from cause.engine.progress import Tick
from cause.engine.samples import SegmentKey
from cause.errors import Cancelled


class InProcess:
    """An executor that trains in the caller's process and thread."""

    def __init__(self) -> None:
        self.in_flight_bytes = 0
        self._stop = False  # if true, the running call of `train` raises `Cancelled`, or the next one does

    def environments(self, learner: Learner) -> Mapping[str, int]:
        """Return the environment of this process."""
        return {learner.environment: 1}

    def train(
        self, learner: Learner, work: Sequence[ShardWork], on_epoch: OnEpoch
    ) -> Generator[bytes | None, None, None]:
        """Yield the encoded sub-model of every task (see `Executor.train`)."""
        try:
            for shard in work:
                blob: bytes | None = None
                for number, task in enumerate(shard.tasks):
                    if shard.current():
                        self._raise_if_stopped()
                        try:
                            parent = blob if number else shard.parent()
                            blob = train_segment(learner, parent, task, self._tick(on_epoch, task.lesson.segment))
                            self.in_flight_bytes = max(self.in_flight_bytes, len(blob))
                        except Cancelled:
                            if shard.current():
                                raise
                        except Exception as error:
                            if shard.current():
                                raise ShardError(task.lesson.segment, error) from error
                            # else: samples were forgotten, and destroyed while they were read or trained on
                    yield blob if shard.current() else None
            self._raise_if_stopped()  # a stop after the last epoch is not one of the next call
        except GeneratorExit:
            self._stop = False  # the caller has ended the call that was to be stopped
            raise

    def _tick(self, on_epoch: OnEpoch, segment: SegmentKey) -> Tick:
        def tick(done: int, total: int) -> None:
            self._raise_if_stopped()
            on_epoch(segment, done, total)

        return tick

    def _raise_if_stopped(self) -> None:
        if self._stop:
            self._stop = False
            raise Cancelled("training was stopped")

    def cancel(self, shards: Collection[int] | None = None) -> None:
        """Stop after the current epoch. Training of single shards stops because their work is no longer current."""
        if shards is None:
            self._stop = True

    def retire(self, shards: Collection[int]) -> None:
        """Do nothing: the memory is the caller's."""

    def close(self) -> None:
        """Withdraw a stop that no call of `train` has raised yet."""
        self._stop = False
