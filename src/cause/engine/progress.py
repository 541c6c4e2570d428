"""Progress: the callbacks that training calls, and the sums they report."""

from collections.abc import Callable
from dataclasses import dataclass

from cause.engine.samples import SegmentKey

Progress = Callable[[int, int], None]
"""Called with the amount of work done and the amount in all."""

Tick = Callable[[int, int], None]
"""Called by a learner after an epoch of a segment, with the number of epochs done and of all epochs."""


def silent(done: int, total: int) -> None:
    """Do nothing: the default for a callback."""


@dataclass(frozen=True, slots=True)
class Step:
    """The end of an epoch of a segment. Samples are counted once for each epoch."""

    segment: SegmentKey
    epoch: int
    epochs: int
    done: int
    """Samples trained on so far, by all shards, since the call began."""
    total: int
    """Samples that the call will have trained on in the end."""


Watch = Callable[[Step], None]
"""Called after each epoch of a segment."""


class Tally:
    """Adds up the progress of all segments of one call.

    Parameters
    ----------
    samples
        The number of samples of each segment.
    watch
        Called with each sum; None to report nothing.

    Examples
    --------
    >>> tally = Tally({SegmentKey(0, 1): 30, SegmentKey(1, 1): 10}, watch=print)
    >>> tally.record(SegmentKey(1, 1), 1, 2)
    Step(segment=SegmentKey(shard=1, round=1, slice=0), epoch=1, epochs=2, done=10, total=80)
    """

    def __init__(self, samples: dict[SegmentKey, int], watch: Watch | None) -> None:
        self._samples, self._watch = samples, watch
        self._epochs: dict[SegmentKey, int] = {}

    def record(self, segment: SegmentKey, epoch: int, epochs: int) -> None:
        """Record that an epoch of a segment is done; a segment that starts again is counted again from its start."""
        if self._watch is None:
            return
        self._epochs[segment] = epoch
        done = sum(self._samples[key] * finished for key, finished in self._epochs.items())
        self._watch(Step(segment, epoch, epochs, done, sum(self._samples.values()) * epochs))
