"""How work tells how far it is."""

from collections.abc import Callable
from dataclasses import dataclass

from cause.engine.samples import SegmentKey

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is to do."""

Tick = Callable[[int, int], None]
"""Called by a learner with how many epochs of a segment are done, and how many there are."""


def silent(done: int, total: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Step:
    """An epoch of a segment has ended. Samples are counted once for each epoch."""

    segment: SegmentKey
    epoch: int
    epochs: int
    done: int
    """Samples trained on so far, by all shards, since the call began."""
    total: int
    """Samples that the call will have trained on."""


Watch = Callable[[Step], None]


class Tally:
    """Adds up what the segments of one call tell, wherever they are trained.

    >>> tally = Tally({SegmentKey(0, 1): 30, SegmentKey(1, 1): 10}, watch=print)
    >>> tally.told(SegmentKey(1, 1), 1, 2)
    Step(segment=SegmentKey(shard=1, round=1, slice=0), epoch=1, epochs=2, done=10, total=80)
    """

    def __init__(self, samples: dict[SegmentKey, int], watch: Watch | None) -> None:
        self._samples, self._watch = samples, watch
        self._epochs: dict[SegmentKey, int] = {}

    def told(self, segment: SegmentKey, epoch: int, epochs: int) -> None:
        """Take notice of one segment; a segment that starts again is counted again from its start."""
        if self._watch is None:
            return
        self._epochs[segment] = epoch
        done = sum(self._samples[key] * finished for key, finished in self._epochs.items())
        self._watch(Step(segment, epoch, epochs, done, sum(self._samples.values()) * epochs))
