"""What a request touches, from where to restart, and what it costs: known before anything is done."""

from dataclasses import dataclass, replace

from cause.engine.ledger import Ledger, Selection
from cause.engine.memory import Memory
from cause.engine.quarantine import hits, judged_again
from cause.engine.rehearsal import rehearsed_count
from cause.engine.samples import SegmentKey


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What forgetting means for one shard."""

    shard: int
    first: SegmentKey
    """The first touched segment: every sub-model at or after it is tainted."""
    restart: SegmentKey | None
    """The newest stored clean sub-model, or scratch."""
    replay: tuple[SegmentKey, ...]
    """The segments to train again: all after the restart point that retain anything."""
    forgotten: int
    """Samples to delete, those in quarantine included."""
    rsn: int
    """Retrained sample number: the retained samples of the replayed segments, rehearsed ones included."""
    floor: int
    """What of it no memory could save: the part from the first touched segment on."""


def plan(ledger: Ledger, memory: Memory, selection: Selection, rehearsal: float = 0.0) -> list[ShardPlan]:
    """Plan a request, or several at once; one entry for each touched shard, ascending.

    A shard that only loses samples which it set aside and never learned from is not touched (see `quarantine`).
    """
    doomed, aside = hits(ledger, selection)
    first: dict[int, SegmentKey] = {}
    for key in (*doomed, *judged_again(ledger, aside)):
        first[key.shard] = min(key, first.get(key.shard, key))
    plans = [_plan_shard(ledger, memory, first[shard], doomed, rehearsal) for shard in sorted(first)]
    more = {shard: sum(hit for key, hit in aside.items() if key.shard == shard) for shard in first} if aside else {}
    return [replace(each, forgotten=each.forgotten + more.get(each.shard, 0)) for each in plans]


def _plan_shard(
    ledger: Ledger, memory: Memory, first: SegmentKey, doomed: dict[SegmentKey, int], rehearsal: float
) -> ShardPlan:
    lineage, restart = ledger.lineage(first.shard), memory.newest_before(first)
    replay, rsn, floor, forgotten = [], 0, 0, 0
    earlier = lineage.samples_upto(restart)
    for segment in lineage.after(restart):
        leaving = doomed.get(segment.key, 0)
        forgotten += leaving
        left = segment.count - leaving
        if left:
            replay.append(segment.key)
            # a segment whose first training was interrupted is not *re*trained
            cost = left + rehearsed_count(rehearsal, left, earlier) if segment.trained else 0
            rsn += cost
            floor += cost if segment.key >= first else 0
            earlier += left
    return ShardPlan(first.shard, first, restart, tuple(replay), forgotten, rsn, floor)
