"""A cache of trained sub-models for clean rooms: most segments are the same after ten sequences of requests.

Training is a pure function, so its arguments name its outcome. Three things keep the comparison independent of this:
- It belongs to the clean rooms of one process. Devices train in worker processes, each segment anew, and never see it.
- The arguments are compared as they are: the parent's bytes, each sample's bytes, the seed, the recipe in words. The
  clean room's own names of its samples take part too, which can only keep two lessons apart; no identity or manifest
  of the device does, so a fault in one of those cannot hide here.
- What is remembered was trained by a clean room, from the data it was given. Were training not pure, the device, which
  trains other segments in another order, would still come to other bits.
"""

import hashlib
from collections.abc import Collection, Generator, Sequence
from functools import partial
from typing import Any

from cause.common.hashing import pack
from cause.engine.executor import OnEpoch, ShardWork, Task, train_segment
from cause.engine.learner import Learner
from cause.engine.samples import Piece

MOST = 5_000  # sub-models of some kilobytes each


class Remembered:
    """Trains in the caller's process, and each lesson once."""

    in_flight_bytes = 0

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self.recipe = ""
        """The learner in words, set by the test that passes this executor to a clean room."""

    def environments(self, learner: Learner) -> dict[str, int]:
        return {learner.environment: 1}

    def train(
        self, learner: Learner, work: Sequence[ShardWork], on_epoch: OnEpoch
    ) -> Generator[bytes | None, None, None]:
        if len(self.blobs) > MOST:
            self.blobs.clear()
        for shard in work:
            blob = shard.parent()
            for task in shard.tasks:
                arguments = self._arguments(blob, task)
                if arguments not in self.blobs:
                    tick = partial(on_epoch, task.lesson.segment)
                    self.blobs[arguments] = train_segment(learner, blob, task, tick)
                blob = self.blobs[arguments]
                yield blob

    def _arguments(self, parent: bytes | None, task: Task) -> bytes:
        lesson = task.lesson
        new, rehearsed = (b"".join(map(_bytes, pieces)) for pieces in (lesson.pieces, lesson.rehearsed))
        start = pack("scratch") if parent is None else pack(parent)
        return hashlib.sha256(pack(self.recipe, str(lesson.segment), start, task.seed, new, rehearsed)).digest()

    def cancel(self, shards: Collection[int] | None = None) -> None:
        pass

    def retire(self, shards: Collection[int]) -> None:
        pass

    def close(self) -> None:
        pass


def _bytes(piece: Piece) -> bytes:
    upload: Any = piece.upload
    inputs, labels = upload.arrays(piece.positions)
    described = str(inputs.dtype), str(inputs.shape), inputs.tobytes(), labels.tobytes()
    return pack(pack(upload.user, upload.round, upload.names(piece.positions), *described))
