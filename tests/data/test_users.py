"""Real samples, distributed over the users of the workload."""

import pickle

import numpy as np
import pytest

from cause.device.device import Cause
from cause.engine.arrays import TraceData
from cause.engine.presets import PRESETS
from cause.errors import InputError
from cause.lab.simulate import Setting, simulate
from cause.lab.trace import parse_trace
from cause.lab.users import share_out, share_own, unmet
from cause.lab.workload import Workload
from cause.learners import CountingLearner

Y = np.random.default_rng(0).integers(0, 10, size=3000)
X = np.arange(3000, dtype=np.float32)[:, None]


def without_labels(trace):
    return [(r.number, [(a.user, a.part.count) for a in r.adds], r.forgets) for r in trace.rounds]


def test_users_sizes_rounds_and_requests_are_those_of_the_workload():
    shared = share_out(X, Y, classes=10, users=20, rounds=4, rho=0.5, seed=3)
    workload = Workload(users=20, rounds=4, samples=3000, rho=0.5, seed=3).trace()
    assert without_labels(shared.trace) == without_labels(workload)
    assert shared.trace.requests > 0


def test_every_sample_is_given_once_with_the_label_that_the_trace_says():
    shared = share_out(X, Y, classes=10, users=20, rounds=4, seed=1)
    given = np.concatenate(list(shared.rows.values()))
    assert sorted(given.tolist()) == list(range(3000))
    assert parse_trace(shared.trace.lines(), partitions=["by-class"]).rounds == shared.trace.rounds
    for round_ in shared.trace.rounds:
        for bare, upload in zip(round_.uploads(), shared.uploads(round_), strict=True):
            x, y = upload.arrays(upload.positions)
            assert np.array_equal(bare.labels(bare.positions), y)
            assert np.array_equal(upload.labels(upload.positions), y)
            assert np.array_equal(Y[x[:, 0].astype(int)], y)


def test_fewer_samples_than_there_are_meet_more_wishes():
    def share(samples):
        workload = Workload(users=20, rounds=4, samples=samples, seed=1).trace()
        return unmet(share_out(X, Y, classes=10, users=20, rounds=4, samples=samples, seed=1), workload) / samples

    assert 0 == share(600) < share(3000) < 0.3


def test_wishes_beyond_the_supply_get_what_is_left_and_nothing_else_changes():
    y = np.zeros(1000, dtype=np.int64)
    y[:100] = 1  # users whose workload has more of class 1 than there is get class 0
    workload = Workload(users=10, rounds=2, samples=1000, classes=2, seed=5).trace()
    shared = share_out(np.zeros((1000, 1)), y, classes=2, users=10, rounds=2, seed=5)
    wish = sum(dict(a.part.labels).get(1, 0) for r in workload.rounds for a in r.adds)
    got = sum(dict(a.part.labels).get(1, 0) for r in shared.trace.rounds for a in r.adds)
    assert got == 100 < wish
    assert unmet(shared, workload) == wish - 100
    for mine, theirs in zip(shared.trace.rounds, workload.rounds, strict=True):
        for a, b in zip(mine.adds, theirs.adds, strict=True):
            assert dict(a.part.labels).get(1, 0) <= dict(b.part.labels).get(1, 0)


def test_labels_differ_by_user_as_alpha_says():
    def own_classes(alpha):
        shared = share_out(X, Y, classes=10, users=20, rounds=1, samples=1000, alpha=alpha, seed=2)
        return np.mean([len(add.part.labels) for add in shared.trace.rounds[0].adds])

    assert own_classes(0.05) < own_classes(0.5) < own_classes(50)


def test_same_seed_same_rows_other_seed_other_rows():
    def rows(seed):
        return share_out(X, Y, classes=10, users=5, rounds=2, seed=seed).rows

    one, again, other = rows(1), rows(1), rows(2)
    assert all(np.array_equal(one[key], again[key]) for key in one)
    assert not all(key in other and np.array_equal(one[key], other[key]) for key in one)


def test_the_seed_also_decides_which_samples_of_a_class_are_given():
    def rows(seed):
        one = share_out(X, np.zeros(3000, np.int64), classes=1, users=1, rounds=1, samples=10, seed=seed)
        return set(one.rows["u1", 1].tolist())

    assert rows(1) == rows(1) != rows(2)


REQUESTS = [
    {},
    {"ages": "recent:0.4", "labels": "iid"},
    {"scope": "round"},
    {"arrivals": "cohorts", "ages": "current", "scope": "user"},
]


@pytest.mark.parametrize("requests", REQUESTS)
@pytest.mark.parametrize("system", ["cause", "sisa", "arcane"])
def test_the_simulator_counts_what_a_run_with_data_retrains(system, requests):
    shared = share_out(X, Y, classes=10, users=12, rounds=4, rho=0.5, seed=4, **requests)
    device = Cause(learner=CountingLearner(), system=system, shards=3, slots=6)
    rsn = 0
    for round_ in shared.trace.rounds:
        device.learn(shared.uploads(round_))
        rsn += sum(each.rsn for each in device.serve(round_.forgets)) if round_.forgets else 0
    assert rsn == simulate(shared.trace, system, PRESETS[system], Setting(3, slots=6)).rsn > 0


def test_uploads_share_one_array_until_they_are_used_or_sent():
    shared = share_out(X, Y, classes=10, users=5, rounds=2, seed=1)
    upload = shared.uploads(shared.trace.rounds[0])[0]
    own = shared.rows[upload.user, 1]
    assert upload._x is X
    assert np.array_equal(upload.rows(range(2, 5)), own[2:5])
    kept = upload.keeping(np.array([0, 3], dtype=np.int64))
    assert np.array_equal(kept.arrays(kept.positions)[0], X[own[[0, 3]]])
    sent = pickle.loads(pickle.dumps(kept))  # noqa: S301  # as a worker process gets it
    assert type(sent) is TraceData
    assert np.array_equal(sent.arrays(kept.positions)[0], X[own[[0, 3]]])
    assert len(pickle.dumps(kept)) < 2000 < X.nbytes
    assert sent.names(kept.positions) == kept.names(kept.positions)
    with pytest.raises(InputError, match="in the trace, not 1"):
        type(upload)(upload._upload, X, Y, own[:1])


def test_the_datas_own_users_keep_their_samples():
    owners = np.array(["ann", "bob", "cyd"])[np.arange(3000) % 7 % 3]
    shared = share_own(X, Y, owners, rounds=3, rho=1.0, seed=2)
    assert sorted(np.concatenate(list(shared.rows.values())).tolist()) == list(range(3000))
    assert all((owners[rows] == user).all() for (user, _), rows in shared.rows.items())
    assert shared.trace.requests == 9
    assert parse_trace(shared.trace.lines(), partitions=["by-class"]).rounds == shared.trace.rounds
    assert without_labels(share_own(X, Y, owners, rounds=3, rho=1.0, seed=2).trace) == without_labels(shared.trace)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": 5}, "but there are 5 classes"),
        ({"samples": 3001}, "from 1 to 3,000 samples"),
        ({"samples": 0}, "from 1 to 3,000 samples"),
        ({"users": 0}, "number of users"),
        ({"y": Y[:-1]}, "one label for each input"),
    ],
)
def test_nonsense_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        share_out(X, **{"y": Y, "classes": 10, **change})


def test_fifty_thousand_images_are_not_copied():
    x = np.zeros((50_000, 32, 32, 3), np.uint8)
    y = np.arange(50_000) % 10
    shared = share_out(x, y, classes=10)
    uploads = [upload for round_ in shared.trace.rounds for upload in shared.uploads(round_)]
    assert all(upload._x is x for upload in uploads)


@pytest.mark.parametrize("labels", [np.arange(6) + 0.5, np.zeros((6, 2)), np.full(6, np.nan), np.array(["0"] * 6)])
def test_labels_that_are_no_list_of_whole_numbers_are_refused(labels):
    with pytest.raises(InputError, match="labels must be"):
        share_out(np.zeros((6, 2)), labels, classes=7, users=2, rounds=1)
