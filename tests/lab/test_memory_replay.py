"""A memory alone, on a tape, retrains what a simulation retrains; and the policy that knows the ages."""

from itertools import combinations

import numpy as np
import pytest

from cause.common.hashing import derive, root_key
from cause.engine.memory import POLICIES
from cause.engine.presets import parse_system
from cause.errors import InputError
from cause.lab.informed import _best_sets, informed
from cause.lab.memory_replay import play, record
from cause.lab.simulate import Setting, simulate
from cause.lab.workload import Workload


def tape_of(base, ages, shards, seed):
    trace = Workload(users=30, rounds=8, samples=3000, rho=0.3, ages=ages, seed=seed).trace()
    return trace, record(trace, parse_system(base)[1], Setting(shards, seed=seed))


@pytest.mark.parametrize("base", ["cause-no-sc", "cause", "frugal", "sisa", "cause:slices=2"])
def test_a_tape_gives_the_rsn_of_a_simulation(base):
    trace, tape = tape_of(base, "recent:0.5", 3, 2)
    for policy in POLICIES:
        if policy in ("latest", "unlimited"):
            continue
        slots = 7
        rsn = play(tape, POLICIES[policy], slots, derive(root_key(2), "policy"))
        simulated = simulate(trace, *parse_system(f"{base}{',' if ':' in base else ':'}policy={policy}"),
                             Setting(3, slots=slots, seed=2))  # fmt: skip
        assert (rsn, tape.floor_rsn) == (simulated.rsn, simulated.floor_rsn), policy
        assert rsn > tape.floor_rsn


def test_a_tape_cannot_be_made_with_rehearsal():
    with pytest.raises(InputError, match="rehearsal = 1"):
        tape_of("recommended", "uniform", 3, 0)


def test_the_best_sets_are_the_best_of_all_sets():
    draw = np.random.default_rng(0)
    for _ in range(20):
        samples, weights = draw.integers(1, 20, size=7), draw.random(7)
        ends = [0, 2, 3, 5, 6]

        def cost(kept, samples=samples, weights=weights):
            total = 0.0
            for segment in range(7):
                restart = max((end for end in kept if end < segment), default=-1)
                total += weights[segment] * samples[restart + 1 : segment].sum()
            return total

        costs, sets = _best_sets(samples.tolist(), weights.tolist(), ends, most=5)
        for size in range(1, 6):
            every = [cost([*others, 6]) for others in combinations(ends[:-1], size - 1)]
            assert costs[size] == pytest.approx(min(every))
            assert cost([ends[index] for index in sets[size]]) == pytest.approx(min(every))


@pytest.mark.parametrize("ages", ["current", "recent:0.3", "uniform"])
def test_nothing_is_far_better_than_the_policy_that_knows_the_ages(ages):
    rsn = dict.fromkeys(("informed", "fibor", "random", "fifo", "static", "cost", "adaptive"), 0)
    for seed in range(4):
        _, tape = tape_of("cause-no-sc", ages, 3, seed)
        for name in rsn:
            rsn[name] += play(tape, informed(ages) if name == "informed" else POLICIES[name], 6)
    assert rsn["informed"] <= 1.05 * min(rsn.values())
    assert rsn["adaptive"] <= 1.1 * rsn["informed"]
    assert rsn["informed"] < 0.97 * rsn["fibor"]
