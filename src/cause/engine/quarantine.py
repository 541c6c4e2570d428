"""Quarantine: samples on which training fails are left out, so that the samples of other users are still learned.

The law. If the training of a segment fails, the samples of each upload in that segment are trained on alone, from
scratch, a few times, with seeds that depend on the recipe only. All uploads that fail alone go into quarantine, and the
segment is trained on the others, as if the quarantined samples had never been uploaded. The verdict is a pure function
of the samples and the recipe; which uploads are judged follows from the retained samples of the shard alone. So a
device trained without the quarantined samples has the same sub-models, bit for bit, and a device with them has the same
verdicts.

When samples are forgotten, all quarantined samples in the replayed segments are reinstated, and judged again if the
training fails: forgotten samples must not decide which others are left out. Forgetting quarantined samples replays
nothing, unless other samples of the same segment are in quarantine too.

Before any samples go into quarantine, the learner is tried on harmless samples of the same shape. If it fails on those
too, the learner or its machine is broken, and no samples go into quarantine.

If no upload fails alone, the segment fails only in combination with its parent or with others. That is an error of the
shard, which keeps its newest sub-model and is tried again at each replay.
"""

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from cause.common import positions as pos
from cause.common.hashing import digest
from cause.engine.arrays import ArrayUpload
from cause.engine.executor import Executor, OnEpoch, ShardError, ShardWork, Task, cancel_unless, nothing_to_record
from cause.engine.learner import Learner
from cause.engine.ledger import Ledger, Selection
from cause.engine.requests import Request
from cause.engine.samples import Lesson, Part, Piece, SegmentKey, TraceUpload, Upload, WithArrays
from cause.errors import RequestError, error_name, is_passing

NOWHERE = SegmentKey(-1, 0)
"""The segment in the lesson of a verdict, which must not depend on the samples' true segment."""
CONTROL_SAMPLES = 8
"""The number of harmless samples that a learner is tried on."""
TRIALS = 4
"""How often samples are trained on alone, each time with another seed; one failure is enough. Whether weights diverge
depends on their initial values; of 100 uploads with one value of 1e30, on which a small network diverged together with
others, one trial found 83 to 92."""


def verdict_seeds(learner: Learner) -> list[bytes]:
    """Return the seeds with which samples are trained on alone."""
    return [digest("quarantine", learner.recipe_digest, trial) for trial in range(TRIALS)]


def verdicts(
    learner: Learner,
    executor: Executor,
    key: SegmentKey,
    pieces: Sequence[Piece],
    current: Callable[[], bool],
    before_sending: Callable[[float], None],
    environment: str,
) -> dict[str, str] | None:
    """Train on each upload's samples of a segment alone, and return which of them fail.

    Parameters
    ----------
    learner, executor
        What trains, and where.
    key
        The segment whose training failed.
    pieces
        Its samples.
    current
        Returns false once some of the samples were forgotten.
    before_sending
        Called before samples leave this machine (see `ShardWork`).
    environment
        The environment of the shard: a verdict of another one might differ.

    Returns
    -------
    dict or None
        The type of the error by user, for uploads that fail. None if there is no verdict, because some of the samples
        were forgotten meanwhile, or because the learner or the machine is broken.

    Raises
    ------
    Cancelled
        If all training was stopped.
    """
    failing: dict[str, str] = {}
    for piece in pieces:
        try:
            if not _trained_alone(learner, executor, key, piece, current, before_sending, environment):
                return None
        except ShardError as error:
            if is_passing(error.cause):
                return None
            failing[piece.upload.user] = error_name(error.cause)
    if failing and not _trains_on_zeros(learner, executor, key, next(iter(pieces)), current, environment):
        return None
    return failing


def _trained_alone(
    learner: Learner,
    executor: Executor,
    key: SegmentKey,
    piece: Piece,
    current: Callable[[], bool],
    before_sending: Callable[[float], None],
    environment: str,
) -> bool:
    """Train on these samples alone with each seed; return False if some of them were forgotten meanwhile."""
    lesson = Lesson(NOWHERE, (piece,), len(piece.positions))
    tasks = [Task(lesson, seed, environment) for seed in verdict_seeds(learner)]
    work = [ShardWork(key.shard, lambda: None, [task], current, before_sending) for task in tasks]
    with closing(executor.train(learner, work, _cancelling(current))) as blobs:
        return all(blob is not None for blob in blobs)


def _trains_on_zeros(
    learner: Learner, executor: Executor, key: SegmentKey, like: Piece, current: Callable[[], bool], environment: str
) -> bool:
    """Return whether training works on samples of the same shape and type whose values are all zero."""
    count = CONTROL_SAMPLES
    labels = np.arange(count) % min(learner.classes or 1, count)
    upload: Upload
    if isinstance(like.upload, WithArrays):
        x = like.upload.arrays(like.positions[:1])[0]
        upload = ArrayUpload("", 0, np.zeros((count, *x.shape[1:]), x.dtype), labels)
    else:
        upload = TraceUpload("", 0, (Part(count),))
    try:
        piece = Piece(upload, upload.positions)
        return _trained_alone(learner, executor, key, piece, current, nothing_to_record, environment)
    except ShardError:
        return False


def _cancelling(current: Callable[[], bool]) -> OnEpoch:
    """Return a callback that ends the training once it is no longer current."""

    def on_epoch(segment: SegmentKey, epoch: int, epochs: int) -> None:
        cancel_unless(current())

    return on_epoch


def hits(ledger: Ledger, selection: Selection) -> tuple[dict[SegmentKey, int], dict[SegmentKey, int]]:
    """Count the samples of a selection by segment: those that are learned from, and those in quarantine."""
    in_quarantine = {(entry.segment, entry.user) for entry in ledger.quarantined()}
    learned: dict[SegmentKey, int] = {}
    quarantined: dict[SegmentKey, int] = {}
    for (user, round_), positions in selection.items():
        for key, held in ledger.pieces_of(user, round_):
            if selected := len(pos.common(held, positions)):
                counts = quarantined if (key, user) in in_quarantine else learned
                counts[key] = counts.get(key, 0) + selected
    return learned, quarantined


def judged_again(ledger: Ledger, quarantined: dict[SegmentKey, int]) -> list[SegmentKey]:
    """Return the segments that keep other samples in quarantine, which are then judged again.

    Parameters
    ----------
    ledger
        The retained samples.
    quarantined
        The number of samples in quarantine that are to be forgotten, by segment.
    """
    in_quarantine: dict[SegmentKey, int] = {}
    for entry in ledger.quarantined():
        in_quarantine[entry.segment] = in_quarantine.get(entry.segment, 0) + entry.samples
    return [key for key, count in quarantined.items() if in_quarantine[key] > count]


def dropping(ledger: Ledger, upload: int) -> Request:
    """Return the request that forgets exactly the samples of an upload that are in quarantine.

    Raises
    ------
    RequestError
        If the upload has no samples in quarantine.
    """
    entries = [entry for entry in ledger.quarantined() if entry.upload == upload]
    if not entries:
        raise RequestError(f"there is no upload {upload} in quarantine: `cause status` numbers them")
    user, round_, segments = entries[0].user, entries[0].round, {entry.segment for entry in entries}
    pieces = ledger.pieces_of(user, round_)
    if all(key in segments for key, _ in pieces):
        return Request(user, (round_,), exact=True)
    samples = tuple((round_, int(position)) for key, held in pieces if key in segments for position in held)
    return Request(user, samples=samples, exact=True)
