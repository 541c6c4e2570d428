"""The pruning table."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, by, of_kind
from cause.lab.reproduce.figures.base import Figure, beside
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, percent, trained_size

RATES = (10, 30, 50, 70, 90)
METHODS = {"iterative": "RCMP", "one-shot": "one-shot"}
MB = 2**20


def cells(size: Size) -> list[Cell]:
    """Return the runs: every backbone unpruned, and pruned by both methods at every rate."""
    pairs = [(values["dataset"], backbone) for backbone, values in paper.PRUNING.values.items()]
    planned = []
    for dataset, backbone in size.sets(*pairs):
        optimizer, batch_size, epochs = paper.PRUNING_SETTINGS.get(backbone, ("adam", 32, 10))
        usual = {
            "dataset": dataset, "backbone": backbone, "optimizer": optimizer, "batch_size": batch_size,
            "epochs": size.prune_epochs or epochs, "share": size.part(dataset), "tests": size.tests,
            "device": size.device,
        }  # fmt: skip
        for seed in range(size.trainings):
            planned.append(Cell("prune", {**usual, "method": "none", "rate": 0, "seed": seed}))
            planned += [
                Cell("prune", {**usual, "method": method, "rate": rate, "seed": seed})
                for method in METHODS
                for rate in RATES
            ]
    return planned


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise accuracy, parameters, file size and time, and what was lost."""
    rows, panels, claims = [], [], []
    for key, group in by(of_kind(done, "prune"), "backbone", "dataset", "share", "epochs", "device").items():
        backbone, name, size = key[0], f"{key[0]} on {key[1]}", trained_size(group)
        reported = paper.PRUNING.values.get(backbone, {})
        means = {(k[0], k[1]): _means(runs) for k, runs in by(group, "method", "rate").items()}
        whole = means.get(("none", 0))
        lines = []
        for method, shown in METHODS.items():
            rates = [rate for rate in RATES if (method, rate) in means]
            lines.append(Series(shown, rates, [means[method, rate]["accuracy"] for rate in rates]))
        theirs = [(rate, reported[str(rate)][0]) for rate in RATES if str(rate) in reported]
        if theirs:
            lines.append(Series("RCMP", [r for r, _ in theirs], [a for _, a in theirs], paper=True))
        panels.append(Panel(name, "pruned, %", "accuracy", lines))
        for method, rate in sorted(means, key=lambda key_: (list(METHODS).index(key_[0]) if key_[1] else -1, key_[1])):
            mean = means[method, rate]
            paper_row = reported.get("original" if method == "none" else str(rate)) if method != "one-shot" else None
            rows.append(_row(name, METHODS.get(method, "unpruned"), rate, mean, whole, paper_row, size))
            if rate == 70 and whole is not None:
                claims += _claims(name, method, mean, whole, reported, size)
    note = (
        "Ours are trained for the same number of epochs with and without pruning; the paper retrains after pruning. "
        "Parameters: what is left of the weights. Files are compressed, as they are stored."
    )
    columns = [
        "",
        "pruned",
        "size",
        "accuracy",
        "parameters, M",
        "file, MB",
        "of the whole file",
        "training, s",
        "pruning, s",
    ]
    at_once = sorted({key_.result.get("together", 1) for key_ in of_kind(done, "prune")} - {1})
    text = "Times were taken beside other trainings on the device, up to {} at once: alone they are shorter."
    timed = [text.format(most) for most in at_once[-1:]]
    return Summary(columns, rows, panels, claims, [note, *timed])


def _means(done: Sequence[Done]) -> dict[str, float]:
    names = ("accuracy", "parameters", "bytes", "train_s", "prune_s")
    return {name: sum(run.result[name] or 0 for run in done) / len(done) for name in names}


def _row(
    name: str,
    method: str,
    rate: int,
    mean: dict[str, float],
    whole: dict[str, float] | None,
    theirs: Sequence[float] | None,
    size: str,
) -> list[str]:
    timed = theirs is not None and len(theirs) > 3
    return [
        f"{name}, {method}",
        f"{rate} %",
        size,
        beside(f"{mean['accuracy']:.3f}", f"{theirs[0]:.3f}" if theirs else None),
        beside(f"{mean['parameters'] / 1e6:.3f}", f"{theirs[1]:.3f}" if theirs else None),
        beside(f"{mean['bytes'] / MB:.2f}", f"{theirs[2]:.2f}" if theirs else None),
        percent(mean["bytes"] / whole["bytes"]) if whole else "–",
        beside(f"{mean['train_s']:.1f}", f"{theirs[3]:.0f}" if theirs and timed else None),
        beside(f"{mean['prune_s']:.2f}", f"{theirs[4]:.2f}" if theirs and timed else None) if rate else "–",
    ]


def _claims(
    name: str,
    method: str,
    mean: dict[str, float],
    whole: dict[str, float],
    reported: dict[str, list[float]],
    size: str,
) -> list[Claim]:
    lost, file = 100 * (whole["accuracy"] - mean["accuracy"]), mean["bytes"] / whole["bytes"]
    stated = reported if method == "iterative" else {}
    theirs = f"{100 * (stated['original'][0] - stated['70'][0]):.2f} points" if stated else "–"
    paper_file = percent(stated["70"][2] / stated["original"][2]) if stated else "–"
    shown = METHODS[method]
    return [
        Claim(
            f"{shown} at 70 %: accuracy lost, {name}",
            theirs,
            f"{lost:.2f} points",
            size,
            f"{whole['accuracy']:.3f} whole, {mean['accuracy']:.3f} pruned.",
        ),
        Claim(
            f"{shown} at 70 %: file left, {name}",
            paper_file,
            percent(file),
            size,
            f"{mean['bytes'] / MB:.2f} of {whole['bytes'] / MB:.2f} MB.",
        ),
    ]


FIGURE = Figure("pruning", "Pruning", paper.PRUNING, cells, summarise)
