"""The segments of a shard: their order, and totals of their samples after any change."""

import numpy as np
import pytest

from cause.engine.ledger import Lineage, Segment
from cause.engine.samples import Part, Piece, SegmentKey, TraceUpload


def segment(round_: int, samples: int) -> Segment:
    upload = TraceUpload("u", round_, (Part(samples),))
    return Segment(SegmentKey(0, round_), [Piece(upload, upload.positions)])


def test_totals_are_those_of_the_segments_after_every_change():
    draw, lineage, removed = np.random.default_rng(0), Lineage(), list[Segment]()
    for round_ in range(1, 120):
        lineage.append(segment(round_, int(draw.integers(1, 4))))
        chosen = list(lineage)[draw.integers(len(list(lineage)))]
        chosen.remove("u", range(int(draw.integers(1, 4))))
        lineage.recount(chosen.key)
        if not chosen.count:
            removed.append(chosen)
        if removed and round_ % 5 == 0:  # its samples come back
            lineage.put(segment(removed.pop(0).key.round, 2))
        kept = list(lineage)
        assert [each.key for each in kept] == sorted(each.key for each in kept)
        assert lineage.samples == sum(each.count for each in kept)
        at = int(draw.integers(len(kept)))
        assert lineage.samples_upto(kept[at].key) == sum(each.count for each in kept[: at + 1])
        assert list(lineage.after(kept[at].key)) == kept[at + 1 :]
        assert list(lineage.before(kept[at].key)) == kept[:at]
        assert lineage[kept[at].key] is kept[at]


def test_the_newest_segment_up_to_a_key():
    lineage = Lineage()
    assert lineage.newest_upto(SegmentKey(0, 3)) is None
    for round_ in (2, 5):
        lineage.append(segment(round_, 1))
    newest = [lineage.newest_upto(key) for key in (None, *(SegmentKey(0, round_) for round_ in (1, 2, 4, 5, 9)))]
    assert [None if key is None else key.round for key in newest] == [None, None, 2, 2, 5, 5]
    assert SegmentKey(0, 3) not in lineage
    with pytest.raises(KeyError):
        lineage[SegmentKey(0, 3)]
