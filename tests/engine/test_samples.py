"""Uploads of a trace: what is kept keeps its labels and shards, and nothing else is kept."""

from hypothesis import given
from hypothesis import strategies as st

from cause.common import positions as pos
from cause.engine.samples import Part, TraceUpload

runs = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=3)


@st.composite
def uploads(draw):
    parts = []
    for labels in draw(st.lists(runs, min_size=1, max_size=3)):
        parts.append(Part(sum(n for _, n in labels), tuple(labels), draw(st.integers(0, 2))))
    return TraceUpload("a", 1, tuple(parts))


def shards(upload):
    return [part.shard for part in upload.parts for _ in range(part.count)]


@given(upload=uploads(), data=st.data())
def test_keeping_some_and_then_fewer(upload, data):
    labels = dict(zip(upload.positions, upload.labels(upload.positions).tolist(), strict=True))
    homes = dict(zip(upload.positions, shards(upload), strict=True))
    for _ in range(2):
        kept = data.draw(st.sets(st.sampled_from([int(p) for p in upload.positions]), min_size=1))
        upload = upload.keeping(pos.from_values(kept))
        assert {int(p) for p in upload.positions} == kept
        assert upload.labels(upload.positions).tolist() == [labels[p] for p in sorted(kept)]
        assert shards(upload) == [homes[p] for p in sorted(kept)]
        assert sum(part.count for part in upload.parts) == len(kept)
        assert all(sum(n for _, n in part.labels) == part.count for part in upload.parts)


def test_keeping_of_a_giant_upload_costs_nothing():
    upload = TraceUpload("a", 1, (Part(10**12, ((1, 10**11), (2, 9 * 10**11))),))
    assert upload.keeping(range(10**11 - 1, 10**12)).parts == (Part(9 * 10**11 + 1, ((1, 1), (2, 9 * 10**11))),)
