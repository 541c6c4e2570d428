"""Accuracy of a single sub-model over the epochs."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, by, of_kind
from cause.lab.reproduce.figures.base import Figure, beside
from cause.lab.reproduce.size import SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, accuracy, mean_of, percent, ratio, trained_size

BACKBONES, DATASETS = ("resnet34", "vgg16", "mobilenetv2"), ("cifar10", "svhn", "cifar100")


def cells(size: Size) -> list[Cell]:
    """Return the runs: three backbones, three data sets, five systems."""
    pairs = size.sets(*((dataset, backbone) for dataset in DATASETS for backbone in BACKBONES))
    planned = []
    for dataset, backbone in pairs:
        for system in SYSTEMS:
            for cell in size.training(dataset, backbone, system):
                left_out = ("rounds", "rho", "memory", "verify")
                planned.append(Cell("curve", {n: v for n, v in cell.settings.items() if n not in left_out}))
    return planned


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise the curves, and how much higher CAUSE ends."""
    rows, panels, claims = [], [], []
    for key, group in by(of_kind(done, "curve"), "dataset", "backbone", "share", "epochs", "recipe", "device").items():
        dataset, backbone, size = key[0], key[1], trained_size(group)
        name = f"{backbone} on {dataset}" + ("" if key[4] == "paper" else f", recipe {key[4]}")
        curves = {k[0]: _mean([run.result["curve"] for run in runs]) for k, runs in by(group, "system").items()}
        reported = paper.EPOCHS.values.get(f"{backbone} {dataset}", {})
        for system, curve in curves.items():
            seen = mean_of([run for run in group if run["system"] == system], "samples").value
            shown = f"{accuracy(curve[-1])} after {len(curve)} epochs, best {accuracy(max(curve))}"
            compared = "cause" in curves and system != "cause"
            share = ratio(curves["cause"][-1], curve[-1]) if compared else None
            ahead = None if share is None else share - 1
            claimed = percent(reported[system]) if system in reported else None
            rows.append([f"{name}, {system}", size, f"{seen:,.0f}", shown, beside(percent(ahead), claimed)])
            if compared:
                sentence = f"{curves['cause'][-1]:.3f} against {curve[-1]:.3f} after {len(curve)} epochs."
                claims.append(Claim(f"CAUSE above {system}, {name}", claimed or "–", percent(ahead), size, sentence))
        panels.append(Panel(name, "epoch", "accuracy", [Series(s, _steps(c), c) for s, c in curves.items()]))
    note = (
        "All samples arrive in one round; the first shard of S = 4 is trained (CAUSE's controller opens 3 then). "
        "A single sub-model is tested on all classes, as in the paper."
    )
    columns = ["", "size", "samples of the shard", "accuracy", "CAUSE is higher by"]
    return Summary(columns, rows, panels, claims, [note])


def _mean(curves: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(column) for column in zip(*curves, strict=True)]


def _steps(curve: Sequence[float]) -> list[int]:
    return list(range(1, len(curve) + 1))


FIGURE = Figure("epochs", "Accuracy over epochs", paper.EPOCHS, cells, summarise)
