"""Comparisons: the claims that the README makes, on fewer seeds, and the tools behind them."""

import json
from pathlib import Path

import pytest

from cause.common.statistics import Mean, student_t
from cause.engine.presets import parse_system
from cause.errors import InputError
from cause.lab.reproduce.figures import FIGURES
from cause.lab.reproduce.figures.ablation import TIGHT_SLOTS, VARIANTS, ablation_cells
from cause.lab.reproduce.figures.balance import Spread, balance_cells
from cause.lab.reproduce.figures.comparison import Sweep, comparison_cells, rows_of, share_of
from cause.lab.reproduce.kinds.spread import FIRST, LAST
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.runner import run_cells
from cause.lab.reproduce.size import FULL
from cause.lab.simulate import Setting
from cause.lab.trace import write_trace
from cause.lab.workload import Workload

ROOT = Path(__file__).parents[2]


def quiet(done, total):
    pass


def compared(systems, source, setting, seeds, sweep=None, file=None, processes=1):
    cells = comparison_cells(systems, source, setting, seeds, sweep, file)
    return rows_of(run_cells(cells, Resources(workers=processes), quiet), sweep.name if sweep else None)


@pytest.mark.parametrize(
    ("shards", "most", "seeds"),
    [(4, 0.30, 2), pytest.param(4, 0.30, 4, marks=pytest.mark.long), pytest.param(16, 0.10, 4, marks=pytest.mark.long)],
)
def test_cause_retrains_a_fraction_of_what_sisa_does(shards, most, seeds):
    rows = compared(["cause", "sisa"], Workload(), Setting(shards=shards), seeds)
    assert share_of(rows[0], rows, "sisa") <= most


def test_rows_do_not_depend_on_the_number_of_processes():
    small, sweep = Workload(users=10, samples=500), Sweep.parse("rho=0.2,0.4")
    rows = [compared(["cause", "frugal"], small, Setting(), 2, sweep, processes=count) for count in (1, 2)]
    assert rows[0] == rows[1]
    assert [(row.at, row.system) for row in rows[0]] == [
        (0.2, "cause"),
        (0.2, "frugal"),
        (0.4, "cause"),
        (0.4, "frugal"),
    ]


def test_every_variant_of_the_ablation_exists_and_differs():
    systems = [parse_system(system)[1] for _, system in VARIANTS]
    assert len(set(systems)) == len(VARIANTS)
    cells = ablation_cells(Workload(), Setting(), 2)
    assert [(cell.settings["slots"], cell.settings["system"]) for cell in cells] == [
        (slots, system) for slots in (None, *TIGHT_SLOTS) for _, system in VARIANTS
    ]


def test_an_ablation_of_more_heads_than_slots_is_refused():
    with pytest.raises(InputError, match="the heads of at most 8 shards, not 9"):
        ablation_cells(Workload(), Setting(shards=9), 2)


def test_a_seed_is_the_devices_too(tmp_path):
    trace = Workload(users=20, rounds=4, samples=900, rho=0.4).trace()
    write_trace(trace, tmp_path / "trace.jsonl")
    (row,) = compared(["cause"], trace, Setting(), 6, file=tmp_path / "trace.jsonl")
    assert len(set(row.rsn_by_seed)) > 1  # the same trace: only the device's own choices differ


def test_a_comparison_has_the_cells_of_the_papers_figure():
    """A run that one of them has made need not be made for the other."""
    comparison, shards = ({cell.key for cell in FIGURES[name].cells(FULL)} for name in ("compare", "rsn-shards"))
    assert len(comparison & shards) >= 20
    drawn = comparison_cells(["cause"], Workload(), Setting(shards=16), FULL.seeds)
    assert drawn[0].key in comparison


def test_longest_first_is_more_even_first_and_last():
    spreads = map(Spread.of, run_cells(balance_cells([8], 100, 5), Resources(), quiet))
    by_point = {(spread.when, spread.strategy): spread.spread.value for spread in spreads}
    assert by_point[FIRST, "balanced"] < by_point[FIRST, "ucdp"]
    assert by_point[LAST, "balanced"] < by_point[LAST, "ucdp"]


def test_confidence_intervals_are_students():
    stats = pytest.importorskip("scipy.special")  # comes with scikit-learn
    for freedom in (*range(1, 40), 99, 999):
        assert student_t(freedom) == pytest.approx(stats.stdtrit(freedom, 0.975), rel=1.5e-3)
    assert Mean.of([3.0]) == Mean(3.0, None)


def test_a_paired_ratio_is_surer_than_the_ratio_of_two_means():
    """What two systems have in common on the same workload does not blur how they differ."""
    cheap, dear = [100.0, 220.0, 405.0, 98.0], [200.0, 440.0, 800.0, 200.0]
    paired = Mean.of_ratios(cheap, dear)
    assert paired.value == pytest.approx(0.5, abs=0.01)
    assert paired.half_width < 0.02 < Mean.of(cheap).half_width / Mean.of(dear).value
    assert Mean.of_ratios([1.0, 0.0], [2.0, 0.0]) == Mean(0.5, None)  # a workload that cost nothing says nothing


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda path: path.name)
def test_committed_results_say_where_they_come_from(path):
    record = json.loads(path.read_text())
    assert record["command"].startswith(("cause ", "python examples/", "python -m benchmarks.", "python -m tests."))
    assert len(record["commit"]) == 40  # the code was not changed after it
    assert record["date"]
    assert record["machine"]["processor"]
