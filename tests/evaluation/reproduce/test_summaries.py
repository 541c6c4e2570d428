"""What is made of finished runs, on numbers that can be checked by hand."""

import pytest

from cause.evaluation.reproduce.cell import Cell, Done
from cause.evaluation.reproduce.figures import FIGURES
from cause.evaluation.reproduce.size import FULL

SOURCE = {"command": "cause reproduce", "commit": "0", "date": "2026-01-01", "machine": {}}


def counted(system, rsn, **settings):
    result = {"rsn": rsn, "rsn_per_round": [[value // 2, value - value // 2] for value in rsn]}
    cell = FULL.counting(system, **settings)
    return Done(Cell("count", {**cell.settings, "seeds": len(rsn)}), result, 1.0, SOURCE)


def trained(system, accuracy, shards, **settings):
    (cell,) = FULL.training("cifar10", "resnet34", system, shards=shards, **settings)
    return Done(cell, {"accuracy": accuracy, "accuracy_of_heads": [accuracy - 0.1]}, 1.0, SOURCE)


def cost(backbone, pruning, seconds, joules):
    def line(slope):
        return {"slope": slope, "intercept": 0.0, "r2": 0.99, "half_width": 0.0}

    result = {
        "points": [], "seconds_line": line(seconds), "joules_line": None if joules is None else line(joules),
        "unavailable": None if joules is not None else "no meter here",
    }  # fmt: skip
    return Done(FULL.cost(backbone, pruning), result, 1.0, SOURCE)


def ours(summary, words):
    (claim,) = [claim for claim in summary.claims if words in claim.claim]
    return claim.ours


def test_a_reduction_is_the_mean_over_the_points():
    done = [
        counted("cause", [10, 30], memory="1GB"), counted("sisa", [100, 100], memory="1GB"),
        counted("cause", [40, 40], memory="2GB"), counted("sisa", [100, 100], memory="2GB"),
    ]  # fmt: skip
    summary = FIGURES["rsn-memory"].summarise(done)
    assert ours(summary, "sisa") == "70.0 %"
    assert summary.columns == ["RSN", "memory = 1GB", "memory = 2GB"]
    assert summary.rows[0][2] == "40 ± 0"


def test_of_two_numbers_of_seeds_the_larger_counts():
    done = [
        counted("cause", [50, 50, 50], rho=0.1), counted("cause", [1, 1], rho=0.1), counted("sisa", [100] * 3, rho=0.1),
    ]  # fmt: skip
    assert ours(FIGURES["rsn-rho"].summarise(done), "sisa") == "50.0 %"


def test_the_controller_is_judged_by_accuracy_and_rsn():
    done = [
        trained("cause", 0.70, 4), trained("cause-no-sc", 0.65, 4),
        counted("cause", [300, 300], shards=4), counted("cause-no-sc", [200, 200], shards=4),
    ]  # fmt: skip
    summary = FIGURES["controller"].summarise(done)
    (gain, share) = summary.claims
    assert (gain.paper, gain.ours, gain.sentence) == (
        "0.693 / 0.646",
        "0.700 / 0.650",
        "+5.0 points by the controller.",
    )
    assert (share.paper, share.ours) == ("90.1 %", "150.0 %")


def test_systems_are_compared_at_the_same_size_only():
    done = [trained("cause", 0.9, 16), trained("sisa", 0.8, 16, epochs=20), trained("cause", 0.5, 16, epochs=20)]
    claims = [claim for claim in FIGURES["shards"].summarise(done).claims if "above" in claim.claim]
    assert [(claim.ours, claim.sentence) for claim in claims] == [("0.500 against 0.800 (sisa)", "CAUSE is not above.")]
    assert "20 epochs" in claims[0].size


def test_the_papers_accuracy_stands_beside_ours():
    summary = FIGURES["shards"].summarise([trained("cause", 0.7, 16), trained("sisa", 0.4, 16)])
    assert [row[2] for row in summary.rows] == ["0.700 [0.600] (paper 0.607)", "0.400 [0.300] (paper 0.360)"]


def test_a_figure_of_other_data_is_marked():
    done = [trained("cause", 0.9, 4), trained("cause-no-sc", 0.8, 4)]
    other = [Done(Cell("train", {**each.cell.settings, "dataset": "svhn"}), each.result, 1.0, SOURCE) for each in done]
    assert FIGURES["controller"].summarise(done).claims[0].paper == "0.693 / 0.646"
    assert FIGURES["controller"].summarise(other).claims[0].paper == "0.693 / 0.646 (resnet34 on cifar10)"


@pytest.mark.parametrize(("joules", "unit", "share"), [(0.5, "energy", "25.0 %"), (None, "time", "10.0 %")])
def test_energy_is_samples_times_what_one_costs(joules, unit, share):
    done = [
        counted("cause", [100, 100], shards=16, rho=0.3), counted("sisa", [200, 200], shards=16, rho=0.3),
        cost("resnet34", "iterative-70", 0.2, joules), cost("resnet34", "none", 1.0, joules and 1.0),
    ]  # fmt: skip
    summary = FIGURES["energy-shards"].summarise(done)
    (claim,) = summary.claims
    assert claim.claim == f"CAUSE's {unit} as a share of sisa's, at S = 16"
    assert (claim.paper, claim.ours, claim.sentence) == ("25.1 %", share, "Calculated.")
    assert any("no meter here" in note for note in summary.notes) == (joules is None)


def test_energy_of_forgetting_is_unknown_when_one_reading_failed():
    def forgot(system, joules, seed):
        (cell,) = FULL.training("cifar10", "resnet34", system, shards=16, rho=0.3)
        energy = {"joules": joules, "unavailable": None if joules else "it broke"}
        result = {"rsn": 100, "simulated_rsn": 100, "requests": 5, "forget_s": 2.0, "energy": energy}
        return Done(Cell("train", {**cell.settings, "seed": seed}), result, 1.0, SOURCE)

    whole = FIGURES["forgetting"].summarise(
        [forgot("cause", 30.0, 0), forgot("cause", 50.0, 1), forgot("sisa", 80.0, 0)]
    )
    assert [row[-2:] for row in whole.rows] == [["40.0", "0.4"], ["80.0", "0.8"]]
    assert ours(whole, "joules of forgetting as a share of sisa") == "50.0 %"
    broken = FIGURES["forgetting"].summarise(
        [forgot("cause", 30.0, 0), forgot("cause", None, 1), forgot("sisa", 80.0, 0)]
    )
    assert broken.rows[0][-2:] == ["unknown", "unknown"]
    assert ours(broken, "seconds of forgetting as a share of sisa") == "100.0 %"


def test_policies_are_compared_seed_by_seed():
    done = [
        counted("cause:policy=fibor", [90, 180], slots=8), counted("cause:policy=random", [100, 200], slots=8),
    ]  # fmt: skip
    assert ours(FIGURES["policies"].summarise(done), "8 slots") == "10.0 % less ± 0.0 %"


def test_pruning_says_what_is_lost_and_what_is_left():
    def pruned(method, rate, accuracy, size):
        settings = {"dataset": "cifar10", "backbone": "resnet34", "share": 1.0, "epochs": 50, "device": "cpu",
                    "method": method, "rate": rate, "seed": 0}  # fmt: skip
        result = {"accuracy": accuracy, "parameters": size // 4, "bytes": size, "train_s": 9.0, "prune_s": rate and 1.0}
        return Done(Cell("prune", settings), result, 1.0, SOURCE)

    summary = FIGURES["pruning"].summarise(
        [pruned("none", 0, 0.72, 80 * 2**20), pruned("iterative", 70, 0.71, 20 * 2**20)]
    )
    lost, left = summary.claims
    assert (lost.paper, lost.ours) == ("-0.83 points", "1.00 points")
    assert (left.paper, left.ours) == ("35.1 %", "25.0 %")
