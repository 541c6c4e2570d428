"""What is made of finished runs, on numbers that can be checked by hand."""

from dataclasses import replace

import pytest

from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.figures import FIGURES
from cause.lab.reproduce.size import FULL

SOURCE = {"command": "cause reproduce", "commit": "0", "date": "2026-01-01", "machine": {}}


def counted(system, rsn, **settings):
    result = {"rsn": rsn, "rsn_per_round": [[value // 2, value - value // 2] for value in rsn]}
    cell = FULL.counting(system, **settings)
    return Done(Cell("count", {**cell.settings, "seeds": len(rsn)}), result, 1.0, SOURCE)


def trained(system, accuracy, shards, seed=0, **settings):
    (cell,) = FULL.training("cifar10", "resnet34", system, shards=shards, **settings)
    cell = Cell("train", {**cell.settings, "seed": seed})
    return Done(cell, {"accuracy": accuracy, "accuracy_of_heads": [accuracy - 0.1]}, 1.0, SOURCE)


def cost(backbone, pruning, seconds, joules, machine=None, **settings):
    points = [[n, n * seconds, None if joules is None else n * joules] for n in (1, 2, 3)]
    result = {"points": points, "unavailable": None if joules is not None else "no meter here"}
    cell = Cell("cost", {**FULL.cost(backbone, pruning).settings, **settings})
    return Done(cell, result, 1.0, {**SOURCE, "machine": machine or {}})


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
    (gain, with_sc, without, share) = summary.claims
    assert (with_sc.paper, with_sc.ours, with_sc.value, with_sc.target) == ("147,698", "300 ± 0", 300, 147_698)
    assert (without.paper, without.ours) == ("163,855", "200 ± 0")
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


@pytest.mark.parametrize(
    ("best", "sentence"),
    [
        ("sisa", "CAUSE is not above. With one shard CAUSE's pruning alone makes -4.0 points."),
        ("arcane", "CAUSE is not above. With one shard ARCANE's optimizer alone makes +20.0 points."),
        ("omp-70", "CAUSE is not above."),  # it prunes, too
    ],
)
def test_where_we_fall_short_it_is_said_which_part_does_it(best, sentence):
    alone = {"cause": 0.66, "sisa": 0.70, "arcane": 0.90, "omp-70": 0.68}
    done = [trained(system, value, 1, share=0.2, epochs=20) for system, value in alone.items()]
    done += [trained(system, 0.5 + 0.1 * (system == best), 4, share=0.2, epochs=20) for system in alone]
    claims = {claim.claim: claim for claim in FIGURES["shards"].summarise(done).claims}
    assert claims["CAUSE above all others at S = 4, resnet34 on cifar10"].sentence == sentence
    less = claims["CAUSE's accuracy at S = 4, resnet34 on cifar10"].sentence
    assert less == "-19.3 points. Our trainings visit 5 % as many samples as the paper's."
    full = FIGURES["shards"].summarise([trained("cause", 0.5, 4)]).claims
    assert [claim.sentence for claim in full] == ["-19.3 points."]


@pytest.mark.parametrize(
    "alone",
    [
        [trained("cause", 0.71, 1), trained("sisa", 0.70, 1)],
        [trained("cause", 0.66, 1), trained("sisa", 0.70, 1), trained("sisa", 0.70, 1, seed=1)],
    ],
)
def test_no_part_is_named_that_does_not_do_it_or_was_not_run_as_often(alone):
    done = [*alone, trained("cause", 0.5, 4), trained("sisa", 0.6, 4)]
    (claim,) = [claim for claim in FIGURES["shards"].summarise(done).claims if "above" in claim.claim]
    assert claim.sentence == "CAUSE is not above."


def test_other_data_is_not_measured_by_the_papers():
    done = [trained(system, 0.7, 4, share=0.5) for system in ("cause", "cause-no-sc")]
    (gain,) = FIGURES["controller"].summarise(done).claims
    assert "visit 50 % as many samples" in gain.sentence
    digits = [Done(Cell("train", {**e.cell.settings, "dataset": "digits"}), e.result, 1.0, SOURCE) for e in done]
    (gain,) = FIGURES["controller"].summarise(digits).claims
    assert gain.sentence == "+0.0 points by the controller."


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
    assert (claim.paper, claim.ours, claim.sentence) == ("25.1 %", share, "Calculated, mean of resnet34.")
    assert any("no meter here" in note for note in summary.notes) == (joules is None)


def forgot(system, joules, seed=0, machine=None, workers=1):
    (cell,) = FULL.training("cifar10", "resnet34", system, shards=16, rho=0.3)
    energy = {"joules": joules, "unavailable": None if joules else "it broke"}
    result = {"rsn": 100, "simulated_rsn": 100, "requests": 5, "forget_s": 2.0, "energy": energy, "workers": workers}
    return Done(Cell("train", {**cell.settings, "seed": seed}), result, 1.0, {**SOURCE, "machine": machine or {}})


def test_energy_of_forgetting_is_unknown_when_one_reading_failed():
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


def pruned(method, rate, accuracy, size):
    settings = {"dataset": "cifar10", "backbone": "resnet34", "share": 1.0, "epochs": 50, "device": "cpu",
                "method": method, "rate": rate, "seed": 0}  # fmt: skip
    result = {"accuracy": accuracy, "parameters": size // 4, "bytes": size, "train_s": 9.0, "prune_s": rate and 1.0}
    return Done(Cell("prune", settings), result, 1.0, SOURCE)


def test_pruning_says_what_is_lost_and_what_is_left():
    summary = FIGURES["pruning"].summarise(
        [pruned("none", 0, 0.72, 80 * 2**20), pruned("iterative", 70, 0.71, 20 * 2**20)]
    )
    lost, left = summary.claims
    assert (lost.paper, lost.ours) == ("-0.83 points", "1.00 points")
    assert (left.paper, left.ours) == ("35.1 %", "25.0 %")


def test_costs_of_different_machines_sizes_or_devices_are_not_compared():
    counts = [counted(system, [100, 100], shards=16, rho=0.3) for system in ("cause", "sisa")]
    board, card = {"processor": "a board"}, {"processor": "a server", "card": "a card"}
    pruned = cost("resnet34", "iterative-70", 1.0, 1.0, board)
    for other in (
        cost("resnet34", "none", 2.0, 2.0, {"processor": "another board"}),
        cost("resnet34", "none", 2.0, 2.0, card, device="cuda"),
        cost("resnet34", "none", 2.0, 2.0, board, epochs=3),
        cost("resnet34", "none", 2.0, 2.0, board, total=10_000, sizes=[1, 2]),
        cost("resnet34", "none", 2.0, 2.0, board, dataset="digits32"),
    ):
        summary = FIGURES["energy-shards"].summarise([*counts, pruned, other])
        assert summary.claims == []
        assert len(summary.rows) == len(summary.panels) == 2  # each beside its own size
    same = cost("resnet34", "none", 2.0, None, board)
    both = [
        *counts,
        pruned,
        same,
        *(cost("resnet34", p, 1.0, 1.0, card, device="cuda") for p in ("iterative-70", "none")),
    ]
    claims = FIGURES["energy-shards"].summarise(both).claims
    assert [(claim.ours, claim.size.rpartition(", ")[2]) for claim in claims] == [
        ("50.0 %", "a board"),
        ("100.0 %", "a card"),
    ]
    assert ["time" in claim.claim for claim in claims] == [True, False]


def test_the_papers_energy_at_16_shards_is_marked_beside_ours_at_fewer():
    done = [counted(system, [100, 100], shards=4, rho=0.3) for system in ("cause", "sisa")]
    done += [cost("resnet34", pruning, 1.0, 1.0) for pruning in ("iterative-70", "none")]
    (claim,) = FIGURES["energy-shards"].summarise(done).claims
    assert (claim.claim, claim.paper) == ("CAUSE's energy as a share of sisa's, at S = 4", "25.1 % (S = 16)")


def test_a_cost_that_does_not_grow_is_left_out_and_said_so():
    done = [counted(system, [100, 100], shards=16, rho=0.3) for system in ("cause", "sisa")]
    done += [cost("resnet34", "iterative-70", -0.5, None), cost("resnet34", "none", 1.0, None)]
    summary = FIGURES["energy-shards"].summarise(done)
    assert summary.claims == []
    assert any("did not grow with the samples: resnet34, iterative-70" in note for note in summary.notes)


def test_the_first_run_of_a_size_is_not_counted_where_others_follow():
    done = cost("mobilenetv2", "none", 0.001, 0.02)
    done.result["points"] = [[n, 9 + 5 / n, 1.0] for n in (1, 2, 3)] + done.result["points"]
    summary = FIGURES["linearity"].summarise([done])
    assert ours(summary, "time") == ours(summary, "energy") == "R² = 1.0000"
    assert summary.rows[0][2:] == ["1", "1.0000", "0.02", "1.0000"]
    assert "3×, the first not counted, cpu" in summary.rows[0][1]
    drawn = [series.y for panel in summary.panels for series in panel.series]
    assert drawn == [pytest.approx([0.001, 0.002, 0.003]), pytest.approx([0.02, 0.04, 0.06])]
    energy = FIGURES["energy-rho"].summarise([done, counted("sisa", [10, 10], backbone="mobilenetv2")])
    assert energy.rows[0][2] == "20 mJ"


def test_energy_that_falls_is_unknown_also_where_only_the_counted_runs_fall():
    done = cost("vgg16", "none", 0.001, -0.02)
    done.result["points"] = [[n, n, 9.0 * n] for n in (1, 2, 3)] + done.result["points"]
    summary = FIGURES["linearity"].summarise([done])
    assert ours(summary, "energy") == "energy unknown"
    assert summary.rows[0][4:] == ["unknown", "–"]
    assert "energy did not grow with the samples" in summary.claims[1].sentence
    assert len(summary.panels) == 1


def test_measurements_of_two_machines_are_drawn_apart():
    h200 = {"card": "NVIDIA H200"}
    done = [
        cost("resnet34", "none", 0.3, None, total=32, machine={"processor": "Xeon"}),
        cost("resnet34", "none", 0.001, 0.02, h200, device="cuda"),
        cost("vgg16", "none", 0.001, 0.02, h200, device="cuda"),
    ]
    panels = FIGURES["linearity"].summarise(done).panels
    assert [(panel.title, [line.name for line in panel.series]) for panel in panels] == [
        ("time, 32 samples, Xeon", ["resnet34"]),
        ("time, 50,000 samples, NVIDIA H200", ["resnet34", "vgg16"]),
        ("energy, 50,000 samples, NVIDIA H200", ["resnet34", "vgg16"]),
    ]
    assert all(panel.to_scale for panel in panels)


def test_forgetting_on_different_machines_is_not_compared():
    summary = FIGURES["forgetting"].summarise(
        [
            forgot("cause", 30.0, machine={"processor": "a board"}),
            forgot("sisa", 60.0, machine={"processor": "another"}),
        ]
    )
    assert (len(summary.rows), summary.claims) == (2, [])


def test_forgetting_with_different_workers_says_so():
    alike = FIGURES["forgetting"].summarise([forgot("cause", 30.0), forgot("sisa", 60.0)])
    assert alike.notes == []
    summary = FIGURES["forgetting"].summarise([forgot("cause", 30.0, workers=12), forgot("sisa", 60.0, workers=6)])
    (note,) = summary.notes
    assert "(6 for sisa; 12 for cause)" in note


def test_policies_of_different_numbers_of_seeds_are_compared_by_those_that_both_have():
    done = [
        counted("cause:policy=fibor", [90, 180, 1000], slots=8), counted("cause:policy=random", [100, 200], slots=8),
    ]  # fmt: skip
    (claim,) = FIGURES["policies"].summarise(done).claims
    assert claim.ours == "10.0 % less ± 0.0 %"
    assert claim.sentence == "Mean RSN 135 against 150."


def test_a_system_without_some_points_is_left_out_where_it_lacks_them():
    done = [counted(system, [100], rho=rho) for system in ("cause", "sisa", "frugal") for rho in (0.1, 0.2)]
    (claim,) = FIGURES["rsn-rho"].summarise(done[:-1]).claims
    assert claim.sentence == "Mean over 0.1, 0.2."
    done = [counted("cause", [100], shards=1), counted("cause-u", [200], shards=1), counted("cause-u", [9], shards=16)]
    assert ours(FIGURES["partitions"].summarise(done), "over S") == "S = 1: cause"
    assert FIGURES["partitions"].summarise(done[:1]).claims == []


def test_a_change_between_other_shards_than_the_papers_is_marked():
    done = [trained("cause", 0.8, 4), trained("cause", 0.6, 16)]
    (claim,) = FIGURES["partitions"].summarise(done).claims
    assert (claim.paper, claim.ours) == ("16.9 % (S = 1 to 16)", "25.0 %")
    (claim,) = FIGURES["partitions"].summarise([*done, trained("cause", 0.9, 1)]).claims
    assert claim.paper == "16.9 %"
    (claim,) = (
        FIGURES["rsn-shards"].summarise([counted("cause", [9], shards=2), counted("cause", [8], shards=4)]).claims
    )
    assert claim.paper == "−88.45 % (S = 1 to 16)"


def test_the_size_tells_different_numbers_of_seeds():
    done = [trained("cause", 0.8, 4, seed=0), trained("cause", 0.8, 4, seed=1), trained("sisa", 0.6, 4)]
    assert {row[1].split(", ")[4] for row in FIGURES["shards"].summarise(done).rows} == {"1 and 2 seeds"}
    assert {row[1].split(", ")[4] for row in FIGURES["shards"].summarise(done[:2]).rows} == {"2 seeds"}


def test_rows_and_claims_stand_in_order_whatever_was_run_first():
    done = [trained(system, 0.5, shards) for shards in (16, 4) for system in ("cause", "sisa")]
    above = [claim.claim for claim in FIGURES["shards"].summarise(done).claims if "above" in claim.claim]
    assert ["S = 4" in claim for claim in above] == [True, False]
    methods = [("one-shot", 70), ("iterative", 70), ("one-shot", 10), ("none", 0), ("iterative", 10)]
    rows = FIGURES["pruning"].summarise([pruned(method, rate, 0.7, 2**20) for method, rate in methods]).rows
    assert [(row[0].rpartition(", ")[2], row[1]) for row in rows] == [
        ("unpruned", "0 %"), ("RCMP", "10 %"), ("RCMP", "70 %"), ("one-shot", "10 %"), ("one-shot", "70 %"),
    ]  # fmt: skip


def test_an_accuracy_of_nothing_has_no_ratio():
    def curve(system, accuracy):
        (cell,) = FULL.training("cifar100", "vgg16", system)
        return Done(Cell("curve", cell.settings), {"curve": [accuracy], "samples": 10}, 1.0, SOURCE)

    assert ours(FIGURES["epochs"].summarise([curve("cause", 0.1), curve("sisa", 0.0)]), "above sisa") == "–"
    assert ours(FIGURES["partitions"].summarise([trained("cause", 0.0, 1), trained("cause", 0.1, 16)]), "lost") == "–"


@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        ("rsn-rho", {"rho": 0.1}, "sisa"), ("rsn-rounds", {}, "share of sisa's"),
        ("energy-shards", {"shards": 16, "rho": 0.3}, "sisa"),
    ],
)  # fmt: skip
def test_systems_are_compared_by_the_seeds_that_all_have(name, setting, words):
    done = [counted("cause", [20, 20, 800], **setting), counted("sisa", [40, 40], **setting)]
    done += [cost("resnet34", pruning, 1.0, 1.0) for pruning in ("iterative-70", "none")]
    (claim,) = [claim for claim in FIGURES[name].summarise(done).claims if words in claim.claim]
    assert (claim.ours, claim.size.split(", ")[1]) == ("50.0 %", "2 seeds")


def test_shards_and_the_controller_are_compared_by_the_seeds_that_all_have():
    done = [counted("cause", [20, 20, 800], shards=16), counted("cause", [40, 40], shards=1)]
    assert ours(FIGURES["rsn-shards"].summarise(done), "change of cause") == "−50.0 %"
    done = [counted("cause", [20, 20, 800], shards=4), counted("cause-no-sc", [40, 40], shards=4)]
    assert ours(FIGURES["controller"].summarise(done), "RSN with SC") == "50.0 %"
    done = [counted("cause", [20, 20, 800], shards=4), counted("cause-u", [40, 40], shards=4)]
    assert ours(FIGURES["partitions"].summarise(done), "over S") == "S = 4: cause"


def test_figure_15s_ratios_are_means_over_the_shards_that_both_have():
    points = {"cause": ((0.8, 1), (0.6, 4)), "sisa": ((0.8, 1), (0.4, 4), (0.1, 16))}
    done = []
    for system, values in points.items():
        for accuracy, shards in values:
            run = trained(system, accuracy, shards, share=0.2, epochs=20)
            done.append(replace(run, cell=Cell("train", {**run.cell.settings, "dataset": "svhn"})))
    (claim,) = [claim for claim in FIGURES["shards"].summarise(done).claims if "accuracy over" in claim.claim]
    assert (claim.paper, claim.ours, claim.value) == ("1.15", "1.25", 1.25)
    assert "Mean over S = 1, 4." in claim.sentence
    # a fifth of an eighth of the images, a quarter of the epochs
    assert "visit 0.606 % as many samples as the paper's" in claim.sentence
