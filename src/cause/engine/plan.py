"""Plans of requests: which shards a deletion touches, where each one restarts, and what retraining costs."""

from dataclasses import dataclass, replace

from cause.engine.ledger import Ledger, Selection
from cause.engine.memory import Memory
from cause.engine.quarantine import hits, judged_again
from cause.engine.rehearsal import rehearsed_count
from cause.engine.samples import SegmentKey


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What a deletion means for one shard."""

    shard: int
    first: SegmentKey
    """The first touched segment: every sub-model at or after it is tainted."""
    restart: SegmentKey | None
    """The newest stored sub-model before the first touched segment; None to restart from scratch."""
    replay: tuple[SegmentKey, ...]
    """The segments to train again: all after the restart point that retain anything."""
    forgotten: int
    """Samples to delete, those in quarantine included."""
    rsn: int
    """Retrained sample number: the retained samples of the replayed segments, rehearsed ones included."""
    floor: int
    """The part of the RSN from the first touched segment on, which no larger memory could save."""


def plan(ledger: Ledger, memory: Memory, selection: Selection, rehearsal: float = 0.0) -> list[ShardPlan]:
    """Plan the deletion of samples; change nothing.

    A shard that only loses samples in quarantine, which it never learned from, is not touched unless other samples of
    the same segment are in quarantine (see `quarantine`).

    Parameters
    ----------
    ledger, memory
        The retained samples, and the stored sub-models.
    selection
        The samples to delete, of one request or of several.
    rehearsal
        The share of rehearsed samples in a segment.

    Returns
    -------
    list of ShardPlan
        One for each touched shard, ascending.
    """
    learned, quarantined = hits(ledger, selection)
    first: dict[int, SegmentKey] = {}
    for key in (*learned, *judged_again(ledger, quarantined)):
        first[key.shard] = min(key, first.get(key.shard, key))
    plans = [_plan_shard(ledger, memory, first[shard], learned, rehearsal) for shard in sorted(first)]
    from_quarantine = dict.fromkeys(first, 0)
    for key, count in quarantined.items():
        if key.shard in first:
            from_quarantine[key.shard] += count
    return [replace(shard, forgotten=shard.forgotten + from_quarantine[shard.shard]) for shard in plans]


def _plan_shard(
    ledger: Ledger, memory: Memory, first: SegmentKey, to_delete: dict[SegmentKey, int], rehearsal: float
) -> ShardPlan:
    lineage, restart = ledger.lineage(first.shard), memory.newest_before(first)
    replay, rsn, floor, forgotten = [], 0, 0, 0
    earlier = lineage.samples_upto(restart)
    for segment in lineage.after(restart):
        deleted = to_delete.get(segment.key, 0)
        forgotten += deleted
        retained = segment.count - deleted
        if retained:
            replay.append(segment.key)
            # a segment whose first training was interrupted is not *re*trained
            cost = retained + rehearsed_count(rehearsal, retained, earlier) if segment.trained else 0
            rsn += cost
            floor += cost if segment.key >= first else 0
            earlier += retained
    return ShardPlan(first.shard, first, restart, tuple(replay), forgotten, rsn, floor)
