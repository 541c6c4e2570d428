"""The paper's reading beside ours: which runs it has, and that it reproduces the paper's numbers in size."""

from dataclasses import replace

import pytest

from cause.engine.presets import parse_system
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.figures import FIGURES, maps
from cause.lab.reproduce.kinds import run as run_kind
from cause.lab.reproduce.readings import PRINTED, joined, split
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.runner import run_cells
from cause.lab.reproduce.size import FULL
from cause.lab.reproduce.summary import Claim, Summary

NEAR = 0.15


def summary_of(name, seeds, **only):
    cells = [
        cell
        for cell in FIGURES[name].cells(replace(FULL, seeds=seeds))
        if cell.settings.get("reading") == "paper"
        and all(cell.settings.get(setting) in values for setting, values in only.items())
    ]
    return FIGURES[name].summarise(run_cells(cells, Resources(), lambda done, total: None))


def test_every_system_of_the_reading_exists():
    for composition in PRINTED.values():
        parse_system(composition)


@pytest.mark.parametrize("name", ["rsn-rounds", "rsn-memory", "rsn-rho", "rsn-shards", "controller", "policies"])
def test_each_figure_of_rsn_has_both_readings_at_the_same_points(name):
    cells = [cell for cell in FIGURES[name].cells(FULL) if cell.kind == "count"]
    marks = ("system", "reading", "named", "ages", "labels", "scope", "arrivals")

    def points(read):
        chosen = [cell.settings for cell in cells if (cell.settings.get("reading") == "paper") == read]
        return {tuple(sorted((k, str(v)) for k, v in settings.items() if k not in marks)) for settings in chosen}

    assert points(read=True) == points(read=False)


@pytest.mark.long
def test_figure_11_comes_out_in_size():
    claims = [claim for claim in summary_of("rsn-rounds", 12).claims if claim.target and "after" in claim.claim]
    assert len(claims) == 5
    for claim in claims:
        assert claim.value is None  # nothing was run in our reading
        assert claim.reading
    values = {claim.claim: float(claim.reading.partition(" ")[0].replace(",", "")) for claim in claims}
    for system, target in paper.ROUNDS.values["last"].items():
        assert values[f"{system}'s RSN after the last round"] == pytest.approx(target, rel=NEAR)


def test_table_3_comes_out_in_size():
    claims = summary_of("controller", 8, named=["cause"], shards=[4, 8]).claims
    values = {claim.claim: float(claim.reading.partition(" ")[0].replace(",", "")) for claim in claims}
    for shards in (4, 8):
        target = paper.CONTROLLER.values["rsn"]["cause"][str(shards)]
        assert values[f"RSN of cause, S = {shards}"] == pytest.approx(target, rel=NEAR)


def test_runs_of_the_reading_have_the_papers_names():
    cell = Cell("count", {"system": "sisa-printed", "reading": "paper", "named": "sisa", "seeds": 1})
    other = Cell("count", {"system": "sisa", "seeds": 1})
    ours, theirs = split([Done(cell, {}, 0.0, {}), Done(other, {}, 0.0, {})])
    assert ([run["system"] for run in ours], [run["system"] for run in theirs]) == (["sisa"], ["sisa"])
    assert ours[0].cell is other


def test_claims_of_both_readings_stand_in_one_line():
    ours = Summary(["", "x"], [["a", "1"]], [], [Claim("a", "10", "90", "s", "Far.").measured(90, 10)])
    read = Summary(["", "x"], [["a", "2"]], [], [Claim("a", "10", "11", "s", "Near.").measured(11, 10)])
    both = joined(ours, read)
    assert both.claims == [Claim("a", "10", "90", "s", "Far. In the paper's reading +10.0 %.", "11", 90, 10)]
    assert both.rows == [["a", "1"], ["a, the paper's reading", "2"]]


def test_readings_at_different_points_stand_in_one_table():
    ours = Summary(["", "S = 1", "S = 4"], [["a", "1", "4"]], [], [])
    read = Summary(["", "S = 4", "S = 8"], [["a", "5", "8"]], [], [])
    both = joined(ours, read)
    assert both.columns == ["", "S = 1", "S = 4", "S = 8"]
    assert both.rows == [["a", "1", "4", "–"], ["a, the paper's reading", "–", "5", "8"]]


def test_a_map_counts_only_what_its_interval_excludes():
    rsn = {"fibor": {"6": [90, 95, 92], "7": [100, 120, 85]}, "random": {"6": [100, 100, 100], "7": [100, 100, 100]}}
    settings = {"system": maps.FIXED, "ages": "uniform", "seeds": 3}
    summary = maps.fibor_summary([Done(Cell("map", settings), {"rsn": rsn}, 0.0, {})])
    (claim,) = summary.claims
    assert claim.ours == "holds at 1 of 2 N, the opposite at 0"
    assert "Holds at N = 6." in claim.sentence


def test_a_map_is_that_of_simulations():
    (cell,) = [
        cell
        for cell in maps.cells(replace(FULL, seeds=2, workload=2_000))
        if cell.settings["system"] == maps.FIXED and cell.settings["ages"] == "uniform"
    ]
    mapped = run_kind("map", {**cell.settings, "slots": "8", "policies": "fibor"}, Resources())
    count = FULL.counting("cause-no-sc", slots=8, samples=2_000, seeds=2)
    assert mapped["rsn"]["fibor"]["8"] == run_kind("count", count.settings, Resources())["rsn"]
