"""What every partitioner must do. A new one is tested by being registered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.common.hashing import root_key
from cause.engine.partition import PARTITIONERS, Arrivals
from cause.engine.samples import Part, TraceUpload

CLASSES = 5
every_partition = pytest.mark.parametrize("name", list(PARTITIONERS))
BY_USER = ("ucdp", "balanced", "hash")


@st.composite
def arrivals(draw, fewest=0, placed=True):
    shards = draw(st.integers(1, 6))
    users = draw(st.sets(st.text(min_size=1, max_size=4), min_size=fewest, max_size=14))
    uploads = {}
    for user in sorted(users):
        labels = draw(st.dictionaries(st.integers(0, CLASSES - 1), st.integers(1, 9), min_size=1, max_size=4))
        part = Part(sum(labels.values()), tuple(sorted(labels.items())), draw(st.integers(0, shards - 1)))
        uploads[user] = TraceUpload(user, 3, (part,))
    homes = (
        draw(st.dictionaries(st.sampled_from(sorted(users)), st.integers(0, shards - 1))) if users and placed else {}
    )
    return Arrivals(3, shards, uploads, homes, root_key(draw(st.integers(0, 99))), CLASSES)


def as_lists(assigned):
    return {user: np.asarray(shards).tolist() for user, shards in assigned.items()}


@every_partition
@given(given_=arrivals())
def test_every_sample_gets_one_shard_that_takes_data(name, given_):
    assigned = PARTITIONERS[name]().assign(given_)
    assert set(assigned) == set(given_.uploads)
    for user, shards in assigned.items():
        shards = np.asarray(shards)
        assert shards.shape in ((), (len(given_.uploads[user].positions),))
        assert ((shards >= 0) & (shards < given_.shards)).all()


@every_partition
@given(given_=arrivals())
def test_same_arrivals_same_answer_in_any_order(name, given_):
    backwards = Arrivals(
        given_.round,
        given_.shards,
        dict(reversed(given_.uploads.items())),
        dict(reversed(given_.placements.items())),
        given_.key,
        given_.classes,
    )
    assert as_lists(PARTITIONERS[name]().assign(given_)) == as_lists(PARTITIONERS[name]().assign(backwards))


@pytest.mark.parametrize("name", BY_USER)
@given(given_=arrivals())
def test_user_partitions_keep_an_upload_in_one_shard(name, given_):
    assert all(isinstance(shard, int) for shard in PARTITIONERS[name]().assign(given_).values())


@pytest.mark.parametrize("name", ["ucdp", "balanced"])
@given(given_=arrivals())
def test_a_placed_user_stays(name, given_):
    assigned = PARTITIONERS[name]().assign(given_)
    assert {user: assigned[user] for user in given_.placements} == dict(given_.placements)


@pytest.mark.parametrize("name", ["ucdp", "balanced"])
@given(given_=arrivals(placed=False))
def test_no_more_users_than_shards_means_a_shard_each(name, given_):
    assigned = PARTITIONERS[name]().assign(given_)
    if len(given_.uploads) <= given_.shards:
        assert len(set(assigned.values())) == len(assigned)
    else:
        assert set(assigned.values()) == set(range(given_.shards))  # nobody's shard is empty


@pytest.mark.parametrize("name", ["uniform", "by-class", "hash", "given"])
@given(given_=arrivals(fewest=2))
def test_partitions_that_do_not_depend_on_other_users(name, given_):
    assigned = as_lists(PARTITIONERS[name]().assign(given_))
    alone = sorted(given_.uploads)[0]
    only = Arrivals(given_.round, given_.shards, {alone: given_.uploads[alone]}, {}, given_.key, given_.classes)
    assert as_lists(PARTITIONERS[name]().assign(only))[alone] == assigned[alone]
