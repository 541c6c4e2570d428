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
    """Every backbone unpruned, and by both methods at every rate."""
    wanted = [(values["dataset"], backbone) for backbone, values in paper.PRUNING.values.items()]
    made = []
    for dataset, backbone in size.sets(*wanted):
        optimizer, batch_size, epochs = paper.PRUNING_SETTINGS.get(backbone, ("adam", 32, 10))
        usual = {
            "dataset": dataset, "backbone": backbone, "optimizer": optimizer, "batch_size": batch_size,
            "epochs": size.prune_epochs or epochs, "share": size.part(dataset), "tests": size.tests,
            "device": size.device,
        }  # fmt: skip
        for seed in range(size.trainings):
            made.append(Cell("prune", {**usual, "method": "none", "rate": 0, "seed": seed}))
            made += [
                Cell("prune", {**usual, "method": method, "rate": rate, "seed": seed})
                for method in METHODS
                for rate in RATES
            ]
    return made


def summarise(done: Sequence[Done]) -> Summary:
    """Accuracy, parameters, file size and time, with what was lost."""
    rows, panels, claims = [], [], []
    for key, own in by(of_kind(done, "prune"), "backbone", "dataset", "share", "epochs", "device").items():
        backbone, name, size = key[0], f"{key[0]} on {key[1]}", trained_size(own)
        reported = paper.PRUNING.values.get(backbone, {})
        found = {(k[0], k[1]): _means(runs) for k, runs in by(own, "method", "rate").items()}
        whole = found.get(("none", 0))
        lines = []
        for method, shown in METHODS.items():
            rates = [rate for rate in RATES if (method, rate) in found]
            lines.append(Series(shown, rates, [found[method, rate]["accuracy"] for rate in rates]))
        theirs = [(rate, reported[str(rate)][0]) for rate in RATES if str(rate) in reported]
        if theirs:
            lines.append(Series("RCMP", [r for r, _ in theirs], [a for _, a in theirs], paper=True))
        panels.append(Panel(name, "pruned, %", "accuracy", lines))
        for method, rate in sorted(found, key=lambda each: (list(METHODS).index(each[0]) if each[1] else -1, each[1])):
            mean = found[method, rate]
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
    at_once = sorted({each.result.get("together", 1) for each in of_kind(done, "prune")} - {1})
    told = "Times were taken beside other trainings on the device, up to {} at once: alone they are shorter."
    timed = [told.format(most) for most in at_once[-1:]]
    return Summary(columns, rows, panels, claims, [note, *timed])


def _means(done: Sequence[Done]) -> dict[str, float]:
    names = ("accuracy", "parameters", "bytes", "train_s", "prune_s")
    return {name: sum(each.result[name] or 0 for each in done) / len(done) for name in names}


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
    known = reported if method == "iterative" else {}
    theirs = f"{100 * (known['original'][0] - known['70'][0]):.2f} points" if known else "–"
    paper_file = percent(known["70"][2] / known["original"][2]) if known else "–"
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
