"""Quarantine: samples that no training can bear are set aside, so that they harm nobody else's.

The law. When the training of a segment fails, the samples that each upload has in that segment are trained on alone,
from scratch, a few times, with seeds that depend on the recipe only. Those that fail alone are set aside, all of them,
and the segment is trained on the others, as if these had never been uploaded. The verdict is a pure function of those
samples and the recipe; which verdicts are taken follows from the retained samples of the shard alone. So a device that
never had the samples in quarantine has the same sub-models, bit for bit, and one that has them takes the same verdicts.

When something is forgotten, whatever is set aside in the segments that are replayed for it is given back, and judged
again if their training fails: what was forgotten must not decide what else is left out. Forgetting samples that are in
quarantine replays nothing, unless others of the same segment are in quarantine with them.

Before anything is set aside, the learner is tried on harmless samples of the same shape. If it fails on those, too, it
is broken or its machine is, and nobody's samples are to blame.

If nothing fails alone, the segment fails only in combination with its parent or with others: that is an error of the
shard, which keeps its newest sub-model and is tried again at each replay.
"""

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from cause.common import positions as pos
from cause.common.hashing import digest
from cause.engine.arrays import ArrayUpload
from cause.engine.executor import Executor, ShardError, ShardWork, Task
from cause.engine.learner import Learner
from cause.engine.ledger import Ledger, Selection
from cause.engine.requests import Request
from cause.engine.samples import Lesson, Part, Piece, SegmentKey, TraceUpload, Upload, WithArrays
from cause.errors import Cancelled, RequestError, error_name, is_passing

NOWHERE = SegmentKey(-1, 0)
"""The segment that a learner is told of: a verdict does not depend on where the samples lie."""
CONTROL_SAMPLES = 8
TRIALS = 4
"""How often samples are trained on alone, each time with another seed: failing once is failing. Whether weights grow
beyond all bounds depends on where they began; of uploads with one value of 1e30, on which a small network diverged
together with others, one trial found 83 to 92 of 100."""


def verdict_seeds(learner: Learner) -> list[bytes]:
    """The seeds of every verdict."""
    return [digest("quarantine", learner.recipe_digest, trial) for trial in range(TRIALS)]


def verdicts(
    learner: Learner, executor: Executor, key: SegmentKey, pieces: Sequence[Piece], current: Callable[[], bool]
) -> dict[str, str] | None:
    """Which parts of a segment fail when they are trained on alone, by user, and with what type of error.

    Returns
    -------
    dict or None
        None if a verdict could not be had: some of the samples were forgotten meanwhile, or the machine failed.

    Raises
    ------
    Cancelled
        If all training was stopped.
    """
    found: dict[str, str] = {}
    for piece in pieces:
        try:
            if not _trained_alone(learner, executor, key, piece, current):
                return None
        except ShardError as error:
            if is_passing(error.cause):
                return None
            found[piece.upload.user] = error_name(error.cause)
    if found and not _bears_harmless(learner, executor, key, next(iter(pieces)), current):
        return None
    return found


def _trained_alone(
    learner: Learner, executor: Executor, key: SegmentKey, piece: Piece, current: Callable[[], bool]
) -> bool:
    """Train on these samples alone with each seed of a verdict; False if something was forgotten meanwhile."""
    lesson = Lesson(NOWHERE, (piece,), len(piece.positions))
    tasks = [Task(lesson, seed) for seed in verdict_seeds(learner)]
    work = [ShardWork(key.shard, lambda: None, [task], current) for task in tasks]
    with closing(executor.train(learner, work, _watching(current))) as blobs:
        return all(blob is not None for blob in blobs)


def _bears_harmless(
    learner: Learner, executor: Executor, key: SegmentKey, like: Piece, current: Callable[[], bool]
) -> bool:
    """Whether training works at all: on samples of the same shape and type that say nothing, all zeros.

    A learner that fails on these, too, is broken, or its machine is. Then nobody's samples are to blame.
    """
    count = CONTROL_SAMPLES
    labels = np.arange(count) % min(learner.classes or 1, count)
    upload: Upload
    if isinstance(like.upload, WithArrays):
        x = like.upload.arrays(like.positions[:1])[0]
        upload = ArrayUpload("", 0, np.zeros((count, *x.shape[1:]), x.dtype), labels)
    else:
        upload = TraceUpload("", 0, (Part(count),))
    try:
        return _trained_alone(learner, executor, key, Piece(upload, upload.positions), current)
    except ShardError:
        return False


def _watching(current: Callable[[], bool]) -> Callable[[SegmentKey, int, int], None]:
    def told(segment: SegmentKey, epoch: int, epochs: int) -> None:
        if not current():
            raise Cancelled("the data was forgotten while it was trained on")

    return told


def hits(ledger: Ledger, selection: Selection) -> tuple[dict[SegmentKey, int], dict[SegmentKey, int]]:
    """How many samples a selection takes from each segment, and from what is set aside in each."""
    aside = {(each.segment, each.user) for each in ledger.quarantined()}
    learned: dict[SegmentKey, int] = {}
    quarantined: dict[SegmentKey, int] = {}
    for (user, round_), wanted in selection.items():
        for key, held in ledger.pieces_of(user, round_):
            if hit := len(pos.common(held, wanted)):
                counts = quarantined if (key, user) in aside else learned
                counts[key] = counts.get(key, 0) + hit
    return learned, quarantined


def judged_again(ledger: Ledger, quarantined: dict[SegmentKey, int]) -> list[SegmentKey]:
    """The segments of which something stays in quarantine when so many samples of it are forgotten."""
    left: dict[SegmentKey, int] = {}
    for each in ledger.quarantined():
        left[each.segment] = left.get(each.segment, 0) + each.samples
    return [key for key, hit in quarantined.items() if left[key] > hit]


def dropping(ledger: Ledger, upload: int) -> Request:
    """The request that forgets what is in quarantine of an upload, and nothing else of it."""
    own = [each for each in ledger.quarantined() if each.upload == upload]
    if not own:
        raise RequestError(f"there is no upload {upload} in quarantine: `cause status` numbers them")
    user, round_, keys = own[0].user, own[0].round, {each.segment for each in own}
    held = [(key, positions) for key, positions in ledger.pieces_of(user, round_)]
    if all(key in keys for key, _ in held):
        return Request(user, (round_,), exact=True)
    positions = [int(each) for key, positions in held if key in keys for each in positions]
    return Request(user, samples=tuple((round_, position) for position in positions), exact=True)
