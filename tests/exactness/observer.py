"""A device, and what an observer writes down beside it by plain set arithmetic, without its ledger."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.engine.presets import ADDITIVE
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey
from tests.clean_room import meant
from tests.small_learners import Sample

CLASSES, SHAPE = 4, (1, 4, 4)
Array = NDArray[Any]
Kept = tuple[str, Array, Array, Array]
"""What is left of one upload: user, inputs, labels, and the shard of each sample."""
# The users of each round matter: with a, b, c / a, c, d / b, d, e the classes would first appear in the same order
# with and without the forgotten samples, and the leak of numbering them so stayed unseen in test_leaks.py.
ROUNDS: tuple[Mapping[str, int], ...] = (
    {"a": 5, "b": 4, "d": 3},
    {"a": 3, "d": 4, "e": 3},
    {"b": 5, "e": 4, "f": 1},
)


def picture(user: str, number: int) -> tuple[Array, int]:
    """Return a small picture of one of the classes, without negative pixels, the same at each call."""
    draw = np.random.default_rng([ord(user), number])
    label = int(draw.integers(CLASSES))
    pixels = draw.uniform(0, 1, size=SHAPE).astype(np.float32)
    pixels[:, label] += 1
    return pixels, label


class Observed:
    """Hands rounds and requests to a device and remembers what it should still have."""

    def __init__(self, device: Cause) -> None:
        self.device = device
        self.round = 0
        self.retained: set[Sample] = set()
        self._data: dict[Sample, tuple[Array, int]] = {}
        self._homes: dict[Sample, int] = {}

    def learn(self, counts: Mapping[str, int]) -> None:
        """One round: so many samples of each user, numbered on through the rounds."""
        self.round += 1
        uploads = []
        for user, count in counts.items():
            pictures = [picture(user, self.round * 100 + i) for i in range(count)]
            upload = ArrayUpload(user, self.round, np.stack([x for x, _ in pictures]), [y for _, y in pictures])
            for position, x, y in self._numbered(upload):
                self._data[user, self.round, position] = x, int(y)
            uploads.append(upload)
        self.device.learn(uploads, empty=True)
        for upload in uploads:
            self.retained |= {(upload.user, self.round, int(position)) for position in upload.positions}
            for key, held in self.device.ledger.pieces_of(upload.user, self.round):
                self._homes |= {(upload.user, self.round, int(position)): key.shard for position in held}

    def _numbered(self, upload: ArrayUpload) -> Iterator[tuple[int, Array, int]]:
        """The samples with the positions that they have on the device: those of what it records of them."""
        inputs, labels = upload.arrays(upload.positions)
        learner = self.device.learner
        if learner.law != ADDITIVE:
            yield from zip(upload.positions, inputs, labels, strict=True)
            return
        recorded = learner.recorded(inputs)
        raw = {(row.tobytes(), int(y)): x for row, x, y in zip(recorded, inputs, labels, strict=True)}
        kept = ArrayUpload(upload.user, upload.round, recorded, labels)
        for position, row, y in zip(kept.positions, *kept.arrays(kept.positions), strict=True):
            yield position, raw[row.tobytes(), int(y)], int(y)

    def serve(self, *requests: Request) -> None:
        """Requests that wait together."""
        for request in requests:
            self.retained -= meant(request, self.retained)
        self.device.serve(requests)

    def left(self) -> list[list[Kept]]:
        """Return the rounds without the forgotten samples."""
        rounds: list[list[Kept]] = []
        for t in range(1, self.round + 1):
            users = sorted({user for user, round_, _ in self.retained if round_ == t})
            rounds.append([self._kept(sorted(s for s in self.retained if s[:2] == (user, t))) for user in users])
        return rounds

    def _kept(self, samples: Sequence[Sample]) -> Kept:
        pictures = [self._data[sample] for sample in samples]
        inputs, labels = np.stack([x for x, _ in pictures]), np.array([y for _, y in pictures])
        return samples[0][0], inputs, labels, np.array([self._homes[sample] for sample in samples])

    # What sequences of requests choose from

    def rounds(self) -> list[int]:
        """Rounds of which anything is retained."""
        return sorted({t for _, t, _ in self.retained})

    def of(self, user: str | None = None, round_: int | None = None) -> list[Sample]:
        """Retained samples of a user, of a round, or of both."""
        return sorted(s for s in self.retained if user in (None, s[0]) and round_ in (None, s[1]))

    def label(self, sample: Sample) -> int:
        """The class of a sample."""
        return self._data[sample][1]

    def users(self, round_: int | None = None) -> list[str]:
        """Users with retained samples, those with most first."""
        names = sorted({user for user, _, _ in self.of(round_=round_)})
        return sorted(names, key=lambda user: -len(self.of(user, round_)))

    def segments(self) -> Iterator[tuple[SegmentKey, list[Sample]]]:
        """Where the device holds what."""
        for shard in self.device.ledger.shards():
            for segment in self.device.ledger.lineage(shard):
                yield (
                    segment.key,
                    [(upload.user, upload.round, int(p)) for upload, held in segment.pieces for p in held],
                )
