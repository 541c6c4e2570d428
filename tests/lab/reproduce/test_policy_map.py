"""The map of policies: its runs, its table and its claims."""

import pytest

from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.figures.policy_map import FIGURE, FRESH, Place, places_of
from cause.lab.reproduce.kinds import map as kind
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.size import FULL, QUICK


def done(**changes):
    """A small run of the kind, made."""
    cell = FIGURE.cells(QUICK.changed(seeds=2))[0]
    settings = {**cell.settings, "users": 20, "samples": 1000, "rounds": 5, "ages": "recent:0.2", **changes}
    small = Cell("map", settings)
    return Done(small, kind.run(settings, Resources(None, "cpu", 1, 1)), 1.0, {})


def test_the_full_map_has_every_place():
    cells = FIGURE.cells(FULL)
    assert len({cell.key for cell in cells}) == 40
    assert {(c.settings["ages"], c.settings["shards"], c.settings["system"]) for c in cells} >= {
        ("current", 2, "cause"),
        ("uniform", 16, "cause-no-sc"),
    }


def test_a_run_becomes_rows_and_claims():
    run = done()
    summary = FIGURE.summarise([run])
    assert len(summary.rows) == 1
    assert len(summary.columns) == len(summary.rows[0])
    shown = {claim.claim: claim.ours for claim in summary.claims}
    places = list(places_of([run]))
    mean = sum(place.ratio("fibor").value for place in places) / len(places)
    assert shown["adaptive retrains less than FiboR, mean of the map"] == f"{100 * (1 - mean):.1f} %"
    assert min(min(rsn) for place in places for rsn in place.rsn.values()) >= min(run.result["floor_rsn"])


def test_ratios_are_of_pairs_of_the_same_seed():
    rsn = {"adaptive": [10, 30], "fibor": [20, 30], "cost": [40, 90], "informed": [1, 1]}
    place = Place("cause", "uniform", 4, 2, rsn, [20, 25])
    assert place.binds
    assert place.best == "fibor"
    assert place.ratio("fibor").value == pytest.approx(0.75)


def test_seeds_on_which_no_constant_was_chosen_are_shown_alone():
    run = done(seeds=FRESH + 2)
    claims = {claim.claim: claim.ours for claim in FIGURE.summarise([run]).claims}
    fresh = [place.from_seed(FRESH) for place in places_of([run])]
    assert all(len(place.floor) == 2 for place in fresh)
    mean = sum(place.ratio("fibor").value for place in fresh) / len(fresh)
    assert (
        claims[f"adaptive retrains less than FiboR, seeds {FRESH} to {FRESH + 1} alone"] == f"{100 * (1 - mean):.1f} %"
    )
    assert not any("alone" in claim.claim for claim in FIGURE.summarise([done()]).claims)


def test_the_bound_is_that_of_the_policy_that_knows_the_ages():
    run = done()
    claims = {claim.claim: claim.ours for claim in FIGURE.summarise([run]).claims}
    pairs = [zip(place.rsn["informed"], place.rsn["fibor"], strict=True) for place in places_of([run])]
    shares = [sum(best / fibor for best, fibor in pair) / 2 for pair in pairs]
    bound = 1 - sum(shares) / len(shares)
    assert claims["a policy that knows the ages retrains less than FiboR, mean of the map"] == f"{100 * bound:.1f} %"


def test_nothing_run_is_an_empty_summary():
    assert FIGURE.summarise([]).rows == []
