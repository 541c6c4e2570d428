"""What is particular to each partitioner."""

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.common.hashing import keyed_int, root_key
from cause.device.device import Cause
from cause.engine.partition import PARTITIONERS, Arrivals
from cause.engine.partition.balanced import longest_first
from cause.engine.partition.ucdp import ucdp
from cause.engine.presets import System
from cause.engine.samples import Part, TraceUpload
from cause.errors import InputError
from cause.lab.workload import Workload
from cause.learners import CountingLearner


def arrivals(shards, classes=10, **labels):
    uploads = {u: TraceUpload(u, 1, (Part(sum(n for _, n in runs), tuple(runs)),)) for u, runs in labels.items()}
    return Arrivals(1, shards, uploads, {}, root_key(0), classes)


def naive_ucdp(sizes, shards, placements, seed):
    """Algorithm 1 with its key written out, looking at everybody each time."""
    placed = {user: shard for user, shard in placements.items() if user in sizes}
    waiting = sorted(set(sizes) - set(placed))
    vacant = [s for s in range(shards) if s not in placed.values()]
    if len(sizes) <= shards:
        vacant.sort(key=lambda shard: keyed_int(*seed, shard))
        return {**placed, **dict(zip(waiting, vacant, strict=False))}
    for shard in vacant:
        if waiting:
            placed[waiting.pop(keyed_int(*seed, shard) % len(waiting))] = shard
    average = Fraction(sum(sizes.values()), len(sizes))
    shard = 0
    while waiting:
        mine = [sizes[user] for user in placed if placed[user] == shard]

        def key(user, mine=mine):
            over = Fraction(sum(mine) + sizes[user], len(mine) + 1) - average
            return max(Fraction(0), over), abs(over), user

        chosen = min(waiting, key=key)
        waiting.remove(chosen)
        placed[chosen] = shard
        shard = (shard + 1) % shards
    return placed


@given(
    sizes=st.dictionaries(st.sampled_from("abcdefghi"), st.integers(1, 6), min_size=1, max_size=9),
    shards=st.integers(1, 3),
    placed=st.dictionaries(st.sampled_from("abcdefghi"), st.integers(0, 2), max_size=3),
)
def test_ucdp_is_algorithm_1_with_its_key(sizes, shards, placed):
    placed = {user: shard for user, shard in placed.items() if shard < shards}
    assigned = ucdp(sizes, shards, placed, (b"key", 1))
    assert assigned == naive_ucdp(sizes, shards, placed, (b"key", 1))


def test_ucdp_keeps_each_user_in_one_shard_when_the_count_is_fixed():
    device = Cause(learner=CountingLearner(), system=System(gamma=1.0), shards=4, slots=100)
    homes: dict[str, set[int]] = {}
    for round_ in Workload(seed=3).trace().rounds:
        device.learn(round_.uploads())
        for upload in round_.uploads():
            pieces = device.ledger.pieces_of(upload.user, upload.round)
            assert len(pieces) == 1  # each upload in one shard
            homes.setdefault(upload.user, set()).update(key.shard for key, _ in pieces)
    assert all(len(shards) == 1 for shards in homes.values())


def test_ucdp_gives_each_shard_as_many_users_within_one():
    sizes = {f"u{i}": random.Random(i).randint(10, 10_000) for i in range(101)}
    assert sorted(Counter(ucdp(sizes, 8, {}, (b"key", 1)).values()).values()) == [12] * 3 + [13] * 5


def test_ucdp_does_not_always_start_with_the_same_users():
    sizes = {f"u{i}": 10 + i for i in range(9)}
    assert len({tuple(sorted(ucdp(sizes, 3, {}, (b"key", t)).items())) for t in range(1, 9)}) > 1


def test_lone_newcomers_do_not_all_go_to_shard_0():
    for strategy in (ucdp, longest_first):
        assert len({strategy({f"u{t}": 5}, 4, {}, (b"key", t))[f"u{t}"] for t in range(1, 30)}) == 4


def test_longest_first_is_more_even_than_ucdp():
    spreads = {ucdp: [], longest_first: []}
    for seed in range(10):
        sizes = {f"u{i}": random.Random(seed * 1000 + i).randint(10, 10_000) for i in range(100)}
        for strategy, values in spreads.items():
            load = Counter()
            for user, shard in strategy(sizes, 16, {}, (root_key(seed), 1)).items():
                load[shard] += sizes[user]
            values.append((max(load.values()) - min(load.values())) / (sum(sizes.values()) / 16))
    assert sum(spreads[longest_first]) < sum(spreads[ucdp]) / 5


def test_by_class_groups_classes():
    shards: Any = PARTITIONERS["by-class"]().assign(arrivals(4, a=[(c, 1) for c in range(10)]))["a"]
    assert shards.tolist() == [c * 4 // 10 for c in range(10)]


def test_by_class_splits_a_class_when_there_are_more_shards_than_classes():
    shards: Any = PARTITIONERS["by-class"]().assign(arrivals(8, classes=3, a=[(0, 200), (1, 200), (2, 200)]))["a"]
    by_class = [set(shards[c * 200 : (c + 1) * 200].tolist()) for c in range(3)]
    assert by_class == [{0, 1}, {2, 3, 4}, {5, 6, 7}]


def test_by_class_refuses_a_label_beyond_the_classes():
    with pytest.raises(InputError, match="label 10, but there are 10 classes"):
        PARTITIONERS["by-class"]().assign(arrivals(4, a=[(10, 1)]))


def test_uniform_spreads_evenly():
    shards: Any = PARTITIONERS["uniform"]().assign(arrivals(4, a=[(0, 40_000)]))["a"]
    assert np.bincount(shards.astype(int)).tolist() == pytest.approx([10_000] * 4, rel=0.05)


def test_given_takes_the_shards_of_the_trace():
    upload = TraceUpload("a", 1, (Part(2, None, 1), Part(3, None, 0)))
    shards: Any = PARTITIONERS["given"]().assign(Arrivals(1, 2, {"a": upload}, {}, b"k", 10))["a"]
    assert shards.tolist() == [1, 1, 0, 0, 0]


def test_given_needs_shards():
    with pytest.raises(InputError, match="names no shard"):
        PARTITIONERS["given"]().assign(arrivals(2, a=[(0, 1)]))
