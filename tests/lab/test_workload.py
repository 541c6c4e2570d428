"""The paper's workload: its totals, its shape and its seeds."""

import numpy as np
import pytest

from cause.errors import InputError
from cause.lab.ages import Ages
from cause.lab.trace import parse_trace
from cause.lab.workload import Workload, scaled

EARLIER = [("u33", 3), ("u20", 100), ("u49", 23), ("u10", "all"), ("u92", 53), ("u63", 10), ("u24", "all")]
"""The first round's requests of seed 0 in version 0.2, by user and count."""


def ages(round_):
    """The ages of a round's requests."""
    rounds = [request.rounds[0] if request.rounds else request.samples[0][0] for request in round_.forgets]
    return [round_.number - of_round for of_round in rounds]


def shares_of_ages(**options):
    """Return how often requests name each age in the fourth round, over some 600 requests."""
    drawn = [Workload(users=400, rounds=4, rho=0.5, seed=seed, **options).trace() for seed in range(3)]
    counted = [age for trace in drawn for age in ages(trace.rounds[-1])]
    return np.bincount(counted, minlength=4) / len(counted)


def test_the_papers_defaults():
    trace = Workload().trace()
    assert len(trace.rounds) == 10
    assert trace.samples == 50_000
    assert len({add.user for round_ in trace.rounds for add in round_.adds}) == 100


def test_a_drawn_trace_is_a_valid_trace():
    trace = Workload(rho=0.5, seed=3).trace()
    assert parse_trace(trace.lines(), partitions=["by-class"]).rounds == trace.rounds


def test_same_seed_same_trace_other_seed_other_trace():
    assert Workload(seed=5).trace() == Workload(seed=5).trace()
    assert Workload(seed=5).trace() != Workload(seed=6).trace()


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.5, 1.0])
def test_requests_come_with_probability_rho(rho):
    requests = np.mean([Workload(rho=rho, seed=seed, samples=20_000).trace().requests for seed in range(10)])
    assert requests == pytest.approx(1000 * rho, rel=0.1)


def test_requests_are_for_any_round_so_far_the_current_one_included():
    requested = [
        (age, round_.number)
        for seed in range(5)
        for round_ in Workload(rho=0.5, seed=seed).trace().rounds
        for age in ages(round_)
    ]
    assert min(age for age, _ in requested) == 0
    assert {age for age, now in requested if now == 10} == set(range(10))


def test_requests_are_for_a_part_of_any_size():
    shares = []
    for round_ in Workload(rho=0.5, seed=1).trace().rounds[:1]:
        sizes = {add.user: add.part.count for add in round_.adds}
        shares = [
            len(request.samples or range(sizes[request.user])) / sizes[request.user]
            for request in round_.forgets
            if sizes[request.user] > 20
        ]
    assert min(shares) < 0.2
    assert max(shares) > 0.8


def test_smaller_alpha_means_fewer_classes_each():
    def mean_classes(alpha):
        trace = Workload(alpha=alpha, rounds=1).trace()
        return np.mean([len(add.part.labels) for add in trace.rounds[0].adds])

    assert mean_classes(0.05) < mean_classes(0.5) < mean_classes(50)


def test_user_sizes_follow_the_papers_distribution():
    sizes = {}
    for round_ in Workload(users=2000, samples=10_000_000, rounds=2).trace().rounds:
        for add in round_.adds:
            sizes[add.user] = sizes.get(add.user, 0) + add.part.count
    weights = np.array(sorted(sizes.values())) / 5000  # the mean weight 5,005 becomes 5,000 samples
    assert weights[1000] == pytest.approx(1.0, abs=0.06)
    assert weights[200] == pytest.approx(0.2, abs=0.05)


def test_recent_ages_fall_by_the_factor():
    shares = shares_of_ages(ages="recent:0.5")
    assert shares == pytest.approx(np.array([8, 4, 2, 1]) / 15, abs=0.06)
    assert shares_of_ages(ages="recent:1") == pytest.approx(np.full(4, 0.25), abs=0.06)


def test_current_ages_and_weights():
    assert shares_of_ages(ages="current")[0] == 1
    assert shares_of_ages(ages="weights:0,3,1") == pytest.approx([0, 0.75, 0.25, 0], abs=0.06)


def test_ages_can_be_taken_from_a_trace():
    trace = Workload(ages="recent:0.3", rho=0.5, seed=1).trace()
    counted = np.bincount([age for round_ in trace.rounds for age in ages(round_)])
    assert str(Ages.of_trace(trace)) == "weights:" + ",".join(map(str, counted))
    with pytest.raises(InputError, match="no request of the trace names a round"):
        Ages.of_trace(Workload(scope="user").trace())


def test_a_part_is_a_random_subset_and_not_the_lowest():
    """Positions follow the classes: the lowest ones would be of few classes."""
    requested, held = np.zeros(10), np.zeros(10)
    for seed in range(10):
        trace = Workload(rho=1, rounds=1, seed=seed).trace()
        for upload in trace.rounds[0].uploads():
            labels = upload.labels(upload.positions)
            for request in trace.rounds[0].forgets:
                if request.user == upload.user and request.samples:
                    chosen = [position for _, position in request.samples]
                    requested += np.histogram(np.array(chosen) / len(labels), 10, (0, 1))[0]
                    held += len(chosen) / 10
    assert requested / held == pytest.approx(np.ones(10), abs=0.05)


def test_partial_requests_never_name_a_sample_twice():
    trace = Workload(rho=1, seed=2).trace()
    named = [(r.user, *sample) for round_ in trace.rounds for r in round_.forgets for sample in r.samples or ()]
    assert len(named) == len(set(named)) > 1000


def test_a_scope_of_a_round_or_a_user_takes_all_of_it():
    of_round = Workload(scope="round", seed=1).trace()
    assert {(r.rounds is None, r.count, r.samples) for round_ in of_round.rounds for r in round_.forgets} == {
        (False, None, None)
    }
    of_user = Workload(scope="user", seed=1).trace()
    assert all(request.everything for round_ in of_user.rounds for request in round_.forgets)
    assert parse_trace(of_user.lines(), partitions=["by-class"]).rounds == of_user.rounds


def test_cohorts_upload_once_and_as_many_ask_as_rho_says():
    trace = Workload(arrivals="cohorts", ages="current", scope="user", rho=0.25, seed=1).trace()
    users = [add.user for round_ in trace.rounds for add in round_.adds]
    assert len(users) == len(set(users)) == 100
    assert [len(round_.adds) for round_ in trace.rounds] == [10] * 10
    assert [len(round_.forgets) for round_ in trace.rounds] == [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    for round_ in trace.rounds:
        assert {request.user for request in round_.forgets} <= {add.user for add in round_.adds}


def test_requests_of_cohorts_have_uniform_ages():
    trace = Workload(arrivals="cohorts", rho=0.5, seed=1).trace()
    requested = [age for round_ in trace.rounds for age in ages(round_)]
    assert set(requested) >= set(range(8))


def test_iid_labels_are_the_same_for_all_users():
    for round_ in Workload(labels="iid", rounds=1, samples=100_000).trace().rounds:
        for add in round_.adds:
            if add.part.count > 1000:
                shares = np.array([count for _, count in add.part.labels]) / add.part.count
                assert shares == pytest.approx(np.full(10, 0.1), abs=0.05)


def test_other_samples_are_drawn_without_changing_who_asks():
    """The samples of a part come from a generator of their own: users, rounds and counts are as in earlier versions."""
    requests = Workload(seed=0).trace().rounds[0].forgets
    assert [(r.user, len(r.samples or ()) or "all") for r in requests] == EARLIER


def test_scaled_adds_up():
    weights = np.random.default_rng(0).integers(10, 10_001, size=77)
    assert scaled(weights, 12_345).sum() == 12_345


@pytest.mark.parametrize(
    "wrong",
    [
        {"users": 0},
        {"rounds": -1},
        {"samples": 0},
        {"classes": 0},
        {"rho": 1.1},
        {"rho": -0.1},
        {"rho": float("nan")},
        {"alpha": 0},
        {"alpha": float("inf")},
        {"seed": -1},
        {"users": 10**12},
        {"users": 10**7, "rounds": 10**6},
        {"ages": "recent:0"},
        {"ages": "recent:1.01"},
        {"ages": "recent:nan"},
        {"ages": "recent"},
        {"ages": "old"},
        {"ages": "uniform:1"},
        {"ages": "weights:0,0"},
        {"ages": "weights:1,-1"},
        {"scope": "everything"},
        {"scope": "user", "ages": "recent:0.5"},
        {"arrivals": "never"},
        {"arrivals": "cohorts", "users": 5},
        {"labels": "sorted"},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(InputError):
        Workload(**wrong)
