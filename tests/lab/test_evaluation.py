"""Comparisons: the claims that the README makes, on fewer seeds, and the tools behind them."""

import json
from pathlib import Path

import pytest

from cause.common.statistics import Mean, student_t
from cause.engine.presets import parse_system
from cause.lab.ablation import TIGHT_SLOTS, VARIANTS, ablation_jobs
from cause.lab.balance import FIRST, LAST, measure
from cause.lab.compare import Sweep, compare, jobs, ratio
from cause.lab.simulate import Setting
from cause.lab.workload import Workload

ROOT = Path(__file__).parents[2]


def quiet(done, total):
    pass


@pytest.mark.parametrize(("shards", "most"), [(4, 0.30), (16, 0.10)])
def test_cause_retrains_a_fraction_of_what_sisa_does(shards, most):
    rows = compare(jobs(["cause", "sisa"], Workload(), Setting(shards=shards), 4), 2, quiet)
    assert ratio(rows[0], rows, "sisa") <= most


def test_rows_do_not_depend_on_the_number_of_processes():
    wanted = jobs(["cause", "frugal"], Workload(users=10, samples=500), Setting(), 2, Sweep.parse("rho=0.2,0.4"))
    assert compare(wanted, 1, quiet) == compare(wanted, 2, quiet)


def test_every_variant_of_the_ablation_exists_and_differs():
    systems = [parse_system(system)[1] for _, system in VARIANTS]
    assert len(set(systems)) == len(VARIANTS)
    wanted = ablation_jobs(Workload(), Setting(), 2)
    assert len(wanted) == len(VARIANTS) * 2 * (1 + len(TIGHT_SLOTS))
    assert all(job.setting.slots == job.at for job in wanted)


def test_a_seed_is_the_devices_too():
    trace = Workload(users=20, rounds=4, samples=900, rho=0.4).trace()
    (row,) = compare(jobs(["cause"], trace, Setting(), 6), 1, quiet)
    assert len(set(row.rsn_by_seed)) > 1  # the same trace: only the device's own choices differ


def test_longest_first_is_more_even_first_and_last():
    found = {(s.when, s.strategy): s.spread.value for s in measure([8], 100, 5, quiet)}
    assert found[FIRST, "balanced"] < found[FIRST, "ucdp"]
    assert found[LAST, "balanced"] < found[LAST, "ucdp"]


def test_confidence_intervals_are_students():
    # quantiles from a printed table of the t distribution
    for freedom, quantile in {
        1: 12.706,
        2: 4.303,
        3: 3.182,
        4: 2.776,
        5: 2.571,
        9: 2.262,
        29: 2.045,
        99: 1.984,
    }.items():
        assert student_t(freedom) == pytest.approx(quantile, rel=2e-3)
    assert Mean.of([3.0]) == Mean(3.0, None)


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda path: path.name)
def test_committed_results_say_where_they_come_from(path):
    record = json.loads(path.read_text())
    assert record["command"].startswith(("cause ", "python examples/", "python -m benchmarks."))
    assert len(record["commit"]) == 40  # the code was not changed after it
    assert record["date"]
    assert record["machine"]["processor"]
