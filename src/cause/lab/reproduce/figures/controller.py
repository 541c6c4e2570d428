"""The shard controller, on and off: accuracy and RSN."""

from collections.abc import Sequence

from cause.common.statistics import Mean
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, by, of_kind
from cause.lab.reproduce.figures.base import Figure, Group, beside, evenly, groups, largest
from cause.lab.reproduce.figures.shards import accuracy_table
from cause.lab.reproduce.figures.sweeps import rsn_of, swept
from cause.lab.reproduce.readings import with_reading
from cause.lab.reproduce.size import SHARDS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, mean_of, percent, thousands

PAIR = ("cause", "cause-no-sc")
TURNS = "cause with shards in turn"
"""In the paper's reading CAUSE itself has fixed shards, which fits its RSN; the controller is shown beside it."""


def cells(size: Size) -> list[Cell]:
    """Return the runs: with and without the controller, trained and simulated."""
    trained = [
        cell
        for dataset, backbone in size.sets(("cifar10", "resnet34"))
        for system in PAIR
        for shards in size.shards
        for cell in size.training(dataset, backbone, system, shards=shards)
    ]
    return [*trained, *swept(size, "shards", SHARDS, PAIR)]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise both halves of the paper's table."""
    trained, counted = groups(of_kind(done, "train")), largest(of_kind(done, "count"))
    columns, rows, panels = accuracy_table(trained)
    rsn_by_point, reported = rsn_of(counted, "shards"), paper.CONTROLLER.values["rsn"]
    shards = [int(name.removeprefix("S = ")) for name in columns[2:]]
    shards += [s for s in sorted({s for _, s in rsn_by_point}) if s not in shards]
    shards.sort()
    rows = [_spread(row, columns, shards) for row in rows]
    lines = []
    for system in dict.fromkeys(system for system, _ in rsn_by_point):
        ours = {s: rsn_by_point[system, s] for s in shards if (system, s) in rsn_by_point}
        theirs = {int(s): float(n) for s, n in reported.get(system, {}).items()}
        cells_ = [beside(thousands(ours[s]), thousands(theirs.get(s))) if s in ours else "–" for s in shards]
        rows.append([f"RSN, {system}", counted_size(counted), *cells_])
        lines.append(
            Series(system, list(ours), [m.value for m in ours.values()], [m.half_width or 0.0 for m in ours.values()])
        )
        if theirs:
            lines.append(Series(system, list(theirs), list(theirs.values()), paper=True))
    panels.append(Panel("RSN", "S", "retrained samples", lines, log=True))
    gains = [claim for group in trained for claim in _gains(group)]
    even = evenly(counted)
    claims = [*gains, *_rsn_claims(rsn_of(even, "shards"), counted_size(even))]
    return Summary(["", "size", *(f"S = {s}" for s in shards)], rows, panels, claims)


def _spread(row: list[str], columns: Sequence[str], shards: Sequence[int]) -> list[str]:
    at = dict(zip(columns, row, strict=True))
    return [row[0], row[1], *(at.get(f"S = {s}", "–") for s in shards)]


def _gains(group: Group) -> list[Claim]:
    by_point = {(k[0], k[1]): mean_of(runs, "accuracy").value for k, runs in by(group.done, "system", "shards").items()}
    reported = paper.CONTROLLER.values["accuracy"]
    claims = []
    for s in sorted({s for _, s in by_point}):
        if all((system, s) in by_point for system in PAIR):
            theirs = [reported[system][str(s)] for system in PAIR] if str(s) in reported["cause"] else None
            on, off = (by_point[system, s] for system in PAIR)
            sentence = f"{100 * (on - off):+.1f} points by the controller.{group.visits}"
            their_text = group.theirs(f"{theirs[0]:.3f} / {theirs[1]:.3f}") if theirs else "–"
            what = f"accuracy with / without SC, S = {s}, {group.name}"
            claims.append(Claim(what, their_text, f"{on:.3f} / {off:.3f}", group.size, sentence))
    return claims


def _rsn_claims(rsn: dict[tuple[str, int], Mean], size: str) -> list[Claim]:
    reported = paper.CONTROLLER.values["rsn"]
    claims = [
        Claim(f"RSN of {system}, S = {s}", thousands(reported[system][str(s)]), thousands(mean), size, "Mean ± 95 %.")
        .measured(mean.value, reported[system][str(s)])
        for (system, s), mean in sorted(rsn.items())
        if system in reported
    ]  # fmt: skip
    with_sc = TURNS if any(system == TURNS for system, _ in rsn) else PAIR[0]
    for s in sorted({s for _, s in rsn}):
        if s > 1 and all((system, s) in rsn for system in (with_sc, PAIR[1])):
            on, off = rsn[with_sc, s].value, rsn[PAIR[1], s].value
            theirs = reported["cause"][str(s)] / reported["cause-no-sc"][str(s)]
            sentence = (
                "The controller saves." if on < off else "Fewer open shards mean that a request replays a larger one."
            )
            claims.append(
                Claim(
                    f"RSN with SC as a share of that without, S = {s}",
                    percent(theirs),
                    percent(on / off),
                    size,
                    sentence,
                )
            )
    return claims


FIGURE = with_reading(
    Figure("controller", "The shard controller, on and off", paper.CONTROLLER, cells, summarise),
    more=[TURNS],
)
