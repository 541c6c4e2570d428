"""Accuracy against the number of shards."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, by, of_kind
from cause.lab.reproduce.figures.base import Figure, Group, beside, groups
from cause.lab.reproduce.size import SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, accuracy, mean_of

SETS = (("cifar10", "resnet34"), ("svhn", "resnet34"), ("cifar100", "vgg16"), ("cifar10", "mobilenetv2"))


def cells(size: Size) -> list[Cell]:
    """Return the runs: the five systems on the paper's four pairs of data set and backbone."""
    return [
        cell
        for dataset, backbone in size.sets(*SETS)
        for system in SYSTEMS
        for shards in size.shards
        for cell in size.training(dataset, backbone, system, shards=shards)
    ]


def reported(group: Group, system: str, shards: int) -> float | None:
    """Return the accuracy that the paper states; None if it states none."""
    value = None
    if group.backbone == "resnet34":
        if system == "cause":
            value = paper.SHARDS.values["figure 5"].get(group.dataset, {}).get(str(shards))
        value = value or paper.SHARDS.values.get(group.dataset, {}).get(system, {}).get(str(shards))
        if group.dataset == "cifar10":
            value = paper.CONTROLLER.values["accuracy"].get(system, {}).get(str(shards), value)
    return value


def accuracy_table(all_groups: Sequence[Group]) -> tuple[list[str], list[list[str]], list[Panel]]:
    """Return columns, rows and panels: accuracy of the vote, in brackets the mean of single sub-models, the paper's."""
    shards = sorted({run["shards"] for group in all_groups for run in group.done})
    rows, panels = [], []
    for group in all_groups:
        lines = []
        for (system,), runs in by(group.done, "system").items():
            at = {key[0]: run for key, run in by(runs, "shards").items()}
            row = [f"{group.name}, {system}", group.size]
            for s in shards:
                theirs = reported(group, system, s)
                row.append(
                    beside(f"{accuracy(mean_of(at[s], 'accuracy'))} [{_single(at[s]):.3f}]", _shown(theirs))
                    if s in at
                    else "–"
                )
            rows.append(row)
            tested = sorted(at)
            lines.append(Series(system, tested, [mean_of(at[s], "accuracy").value for s in tested]))
            stated = [(s, theirs) for s in tested if (theirs := reported(group, system, s)) is not None]
            if stated:
                lines.append(Series(system, [s for s, _ in stated], [v for _, v in stated], paper=True))
        panels.append(Panel(group.name, "S", "accuracy", lines))
    return ["", "size", *(f"S = {s}" for s in shards)], rows, panels


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise how far accuracy falls, and whether CAUSE is above the others."""
    trained = groups(of_kind(done, "train"))
    columns, rows, panels = accuracy_table(trained)
    claims = [claim for group in trained for claim in [*_falls(group), *_above(group), *_ratios(group)]]
    note = "Accuracy of the vote after the last round; in square brackets the mean of the single sub-models."
    return Summary(columns, rows, panels, claims, [note])


def _falls(group: Group) -> list[Claim]:
    at = {key[0]: runs for key, runs in by([run for run in group.done if run["system"] == "cause"], "shards").items()}
    return [
        Claim(
            f"CAUSE's accuracy at S = {s}, {group.name}",
            _shown(reported(group, "cause", s)) or "–",
            accuracy(mean_of(at[s], "accuracy")),
            group.size,
            _against(mean_of(at[s], "accuracy").value, reported(group, "cause", s), group),
        )
        for s in sorted(at)
    ]


def _against(ours: float, theirs: float | None, group: Group) -> str:
    if theirs is None:
        return "The paper has no figure of it."
    return f"{100 * (ours - theirs):+.1f} points.{group.visits}"


def _above(group: Group) -> list[Claim]:
    claims = []
    for (s,), runs in sorted(by(group.done, "shards").items()):
        at = {key[0]: mean_of(of_system, "accuracy").value for key, of_system in by(runs, "system").items()}
        others = {name: value for name, value in at.items() if name != "cause"}
        if s > 1 and "cause" in at and others:
            best = max(others, key=lambda name: others[name])
            compared = f"{at['cause']:.3f} against {others[best]:.3f} ({best})"
            sentence = "CAUSE is above." if at["cause"] > others[best] else f"CAUSE is not above.{_reason(group, best)}"
            claims.append(
                Claim(f"CAUSE above all others at S = {s}, {group.name}", "yes", compared, group.size, sentence)
            )
    return claims


def _ratios(group: Group) -> list[Claim]:
    """Return CAUSE's accuracy over each other system's, mean over S, for the groups of which the paper states it."""
    pairs = list(SETS[1:])
    if (group.dataset, group.backbone) not in pairs:
        return []
    at = {key: mean_of(runs, "accuracy").value for key, runs in by(group.done, "system", "shards").items()}
    claims = []
    for other, stated in paper.SHARDS.values["ratios"].items():
        shards = sorted(s for system, s in at if system == "cause" and at.get((other, s)))
        if shards:
            ratio = sum(at["cause", s] / at[other, s] for s in shards) / len(shards)
            theirs = stated[pairs.index((group.dataset, group.backbone))]
            sentence = f"Mean over S = {', '.join(map(str, shards))}.{group.visits}"
            what = f"CAUSE's accuracy over {other}'s, {group.name}"
            claims.append(Claim(what, f"{theirs:.2f}", f"{ratio:.2f}", group.size, sentence).measured(ratio, theirs))
    return claims


def _reason(group: Group, best: str) -> str:
    """Return the effect of the one part in which two systems with one shard differ, if it explains the result."""
    parts = {"sisa": ("CAUSE's pruning", "cause", -1), "arcane": ("ARCANE's optimizer", "arcane", 1)}
    alone = {key[0]: runs for key, runs in by([run for run in group.done if run["shards"] == 1], "system").items()}
    if group.recipe != "paper" or best not in parts:
        return ""
    part, with_it, sign = parts[best]
    if not {with_it, "sisa"} <= alone.keys() or _seeds(alone[with_it]) != _seeds(alone["sisa"]):
        return ""
    makes = 100 * (mean_of(alone[with_it], "accuracy").value - mean_of(alone["sisa"], "accuracy").value)
    return f" With one shard {part} alone makes {makes:+.1f} points." if sign * makes > 0 else ""


def _seeds(done: Sequence[Done]) -> set[int]:
    return {run["seed"] for run in done}


def _single(done: Sequence[Done]) -> float:
    heads: list[float] = [value for run in done for value in run.result["accuracy_of_heads"]]
    return sum(heads) / len(heads)


def _shown(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


FIGURE = Figure("shards", "Accuracy against the number of shards", paper.SHARDS, cells, summarise)
