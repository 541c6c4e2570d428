"""The partition ablation: CAUSE, CAUSE-U and CAUSE-C."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, by, of_kind
from cause.lab.reproduce.figures.base import Figure, Group, evenly, groups, largest, over_shards
from cause.lab.reproduce.figures.rsn_rho import RHOS
from cause.lab.reproduce.figures.shards import accuracy_table
from cause.lab.reproduce.figures.sweeps import rsn_of, swept, table_of
from cause.lab.reproduce.readings import with_reading
from cause.lab.reproduce.size import SHARDS, Size
from cause.lab.reproduce.summary import Claim, Summary, counted_size, mean_of, percent, ratio

SYSTEMS = ("cause", "cause-u", "cause-c")


def cells(size: Size) -> list[Cell]:
    """Return the runs: accuracy over S, RSN over S and over ρ."""
    trained = [
        cell
        for dataset, backbone in size.sets(("cifar10", "resnet34"))
        for system in SYSTEMS
        for shards in size.shards
        for cell in size.training(dataset, backbone, system, shards=shards)
    ]
    return [*trained, *swept(size, "shards", SHARDS, SYSTEMS), *swept(size, "rho", RHOS, SYSTEMS)]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise the three measures in one table."""
    trained, counted = groups(of_kind(done, "train")), largest(of_kind(done, "count"))
    columns, rows, panels = accuracy_table(trained)
    claims = [claim for group in trained for claim in _lost(group)]
    width = max(len(columns), 2 + len(SHARDS))
    table = [["accuracy of", *columns[1:]], *rows] if rows else []
    for setting, label in (("shards", "S"), ("rho", "ρ")):
        fixed = {"shards": ("rho", 0.1), "rho": ("shards", 4)}[setting]
        of_setting = [run for run in counted if run[fixed[0]] == fixed[1]]
        if of_setting:
            part = table_of(of_setting, setting, label)
            table += [[f"RSN, {label}", counted_size(of_setting), *part.columns[1:]]]
            table += [[row[0], "", *row[1:]] for row in part.rows]
            panels += part.panels
            claims += _least(of_setting, setting, label)
    padded = [[*row, *[""] * (width - len(row))] for row in table]
    return Summary(["", "size", *[""] * (width - 2)], padded, panels, claims)


def _lost(group: Group) -> list[Claim]:
    claims = []
    for (system,), runs in by(group.done, "system").items():
        at = {key[0]: mean_of(of_shards, "accuracy").value for key, of_shards in by(runs, "shards").items()}
        few, many = min(at), max(at)
        if few < many:
            share = ratio(at[many], at[few])
            theirs = over_shards(percent(paper.PARTITIONS.values["accuracy lost"][system]), few, many)
            claims.append(
                Claim(
                    f"accuracy of {system} lost from S = {few} to {many}, {group.name}",
                    group.theirs(theirs),
                    percent(None if share is None else 1 - share),
                    group.size,
                    f"Relative to the accuracy at the fewest shards.{group.visits}",
                )
            )
    return claims


def _least(done: Sequence[Done], setting: str, label: str) -> list[Claim]:
    """Return the claim about who retrains least, at the points that all systems have."""
    done = evenly(done)
    rsn = rsn_of(done, setting)
    names = list(dict.fromkeys(name for name, _ in rsn))
    points = [point for point in sorted({p for _, p in rsn}) if all((name, point) in rsn for name in names)]
    if len(names) < 2 or not points:
        return []
    least = [min((m.value, name) for (name, p), m in rsn.items() if p == point)[1] for point in points]
    winners = ", ".join(f"{label} = {point}: {name}" for point, name in zip(points, least, strict=True))
    apart = "; ".join(f"{name} {rsn[name, points[-1]].value:,.0f}" for name in names)
    sentence = f"At {label} = {points[-1]}: {apart}."
    return [Claim(f"who retrains least, over {label}", "CAUSE (UCDP)", winners, counted_size(done), sentence)]


FIGURE = with_reading(Figure("partitions", "Partitions: CAUSE, CAUSE-U, CAUSE-C", paper.PARTITIONS, cells, summarise))
