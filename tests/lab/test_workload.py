"""The paper's workload: its totals, its shape and its seeds."""

import numpy as np
import pytest

from cause.errors import InputError
from cause.lab.trace import parse_trace
from cause.lab.workload import Workload, scaled


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
    asked = [
        (round_.number - request.rounds[0], round_.number)
        for seed in range(5)
        for round_ in Workload(rho=0.5, seed=seed).trace().rounds
        for request in round_.forgets
    ]
    assert min(age for age, _ in asked) == 0
    assert {age for age, now in asked if now == 10} == set(range(10))


def test_requests_are_for_a_part_of_any_size():
    shares = []
    for round_ in Workload(rho=0.5, seed=1).trace().rounds[:1]:
        sizes = {add.user: add.part.count for add in round_.adds}
        shares = [request.count / sizes[request.user] for request in round_.forgets if sizes[request.user] > 20]
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
    found = np.array(sorted(sizes.values())) / 5000  # the mean weight 5,005 becomes 5,000 samples
    assert found[1000] == pytest.approx(1.0, abs=0.06)
    assert found[200] == pytest.approx(0.2, abs=0.05)


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
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(InputError):
        Workload(**wrong)
