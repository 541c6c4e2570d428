"""Every table and figure of the paper is made for real, at a tiny size."""

import json

import pytest

from cause.lab.reproduce import paper
from cause.lab.reproduce.figures import FIGURES
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.runner import reproduce, rewrite
from cause.lab.reproduce.size import FULL, REDUCED, SHARDS, SYSTEMS
from tests.lab.reproduce.tiny import ONLY, TINY
from tests.quick import quick_only

SLOW = ("policy-map", "map-controller")
"""These take as long as all others; `make test` makes a third map, `map-fibor`."""


@pytest.fixture(scope="module")
def made(tmp_path_factory, request):
    """One folder for all of them: they share runs."""
    out = tmp_path_factory.mktemp("reproduced")
    names = FIGURES if request.config.getoption("--long") else FIGURES.keys() - set(SLOW)
    return out, reproduce([FIGURES[name] for name in FIGURES if name in names], TINY, Resources(), out, only=ONLY)


@pytest.mark.parametrize("name", quick_only(FIGURES, FIGURES.keys() - set(SLOW)))
def test_a_figure_says_what_was_found_and_where_it_comes_from(made, name):
    out, report = made
    record = json.loads((out / f"{name}.json").read_text())
    result = record["result"]
    assert report.results[name]["rows"] == result["summary"]["rows"]
    assert result["summary"]["rows"]
    assert result["summary"]["claims"]
    assert all(len(row) == len(result["summary"]["columns"]) for row in result["summary"]["rows"])
    for source in [record, *result["sources"]]:
        assert source["command"].startswith("cause")
        assert source["commit"]
        assert source["date"]
        assert source["machine"]["processor"]
    assert result["where"].startswith(("Figure", "Table", "Section"))
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert result["title"] in (out / "RESULTS.md").read_text()


def test_every_claim_has_a_size(made):
    _, report = made
    for name, result in report.results.items():
        assert all(claim["size"] and claim["ours"] and claim["sentence"] for claim in result["claims"])
        # real forgetting is always small, and the pruning table has epochs of its own
        size = {"forgetting": "10 % of the samples, 1 epoch,", "pruning": "20 % of the samples, 2 epochs,"}
        trained = [claim["size"] for claim in result["claims"] if "of the samples" in claim["size"]]
        assert all(size.get(name, "20 % of the samples, 1 epoch,") in text and "1 seed" in text for text in trained)
    assert any("of the samples" in claim["size"] for claim in report.results["shards"]["claims"])


def test_real_runs_retrain_what_the_simulator_says(made):
    out, _ = made
    cells = json.loads((out / "forgetting.json").read_text())["result"]["cells"]
    assert {cell["settings"]["system"] for cell in cells} == {"cause", "sisa"}
    for cell in cells:
        assert cell["result"]["rsn"] == cell["result"]["simulated_rsn"] > 0
        assert cell["result"]["replayed"] == {"identical": 1, "mismatched": 0} or cell["settings"]["system"] == "sisa"


def test_energy_is_never_nought(made):
    out, _ = made
    for name, where in (("forgetting", "energy"), ("linearity", None), ("energy-shards", None)):
        for cell in json.loads((out / f"{name}.json").read_text())["result"]["cells"]:
            result = cell["result"]
            if where:
                assert (result[where]["joules"] is None) == bool(result[where]["unavailable"])
            elif cell["kind"] == "cost":
                assert result["unavailable"] or all(joules is not None for _, _, joules in result["points"])
    page = (out / "RESULTS.md").read_text()
    assert ("unknown" in page) == any(
        cell["result"]["unavailable"] for cell in json.loads((out / "linearity.json").read_text())["result"]["cells"]
    )


def test_the_last_point_of_a_curve_is_the_trained_network(made):
    out, _ = made
    for cell in json.loads((out / "epochs.json").read_text())["result"]["cells"]:
        assert cell["result"]["curve"][-1] == pytest.approx(cell["result"]["accuracy"], abs=0.011)
        assert len(cell["result"]["curve"]) == 1


def test_pruning_leaves_less(made):
    out, _ = made
    cells = json.loads((out / "pruning.json").read_text())["result"]["cells"]
    results = {cell["settings"]["method"]: cell["result"] for cell in cells}
    for method in ("iterative", "one-shot"):
        assert results[method]["parameters"] < 0.4 * results["none"]["parameters"]
        assert results[method]["bytes"] < 0.5 * results["none"]["bytes"]
        assert results[method]["prune_s"] > 0


def test_everything_is_made_again_from_the_files_alone(made, thorough):
    out, first = made
    figures = [FIGURES[name] for name in first.results][
        :: 1 if thorough else 4
    ]  # each is drawn again: it takes a while
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix in (".json", ".md", ".png")}
    for path in (out / "cells").iterdir():
        path.rename(path.with_suffix(".away"))
    try:
        report = rewrite(figures, out)
    finally:
        for path in (out / "cells").iterdir():
            path.rename(path.with_suffix(".json"))
    assert set(report.results) == {figure.name for figure in figures}
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("size", [FULL, REDUCED], ids=lambda size: size.name)
def test_larger_sizes_ask_for_what_the_paper_shows(size):
    shards = {(c.settings["system"], c.settings["shards"]) for c in FIGURES["shards"].cells(size)}
    assert shards == {(system, s) for system in SYSTEMS for s in SHARDS}
    curves = FIGURES["epochs"].cells(size)
    assert len({(c.settings["dataset"], c.settings["backbone"]) for c in curves}) == 9
    pruned = FIGURES["pruning"].cells(size)
    assert len(pruned) == 4 * (1 + 2 * 5)
    assert {c.settings["dataset"] for c in pruned if c.settings["backbone"] == "densenet121"} == {"cifar100"}
    for name in ("rsn-memory", "rsn-rho", "rsn-shards", "policies"):
        assert all(c.settings["seeds"] >= 20 for c in FIGURES[name].cells(size))
    energy = {c.settings["backbone"] for c in FIGURES["energy-rho"].cells(size)}
    assert len(energy) == 4


def test_a_full_run_has_the_papers_settings():
    selected = {"system": "cause", "shards": 16, "dataset": "cifar10", "backbone": "resnet34"}
    (cell,) = [c for c in FIGURES["shards"].cells(FULL) if selected.items() <= c.settings.items()]
    expected = {"share": 1.0, "epochs": 80, "rounds": 10, "users": 100, "memory": "2GB", "alpha": 0.5, "tests": None}
    assert expected.items() <= cell.settings.items()
    epochs = {c.settings["backbone"]: c.settings["epochs"] for c in FIGURES["pruning"].cells(FULL)}
    assert epochs == {"vgg16": 150, "resnet34": 50, "densenet121": 100, "mobilenetv2": 50}


@pytest.mark.parametrize("name", FIGURES)
def test_the_papers_numbers_are_there(name):
    reported = FIGURES[name].reported
    assert reported in vars(paper).values()
    assert reported.values
    assert reported.says
