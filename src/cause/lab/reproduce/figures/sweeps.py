"""RSN of the five systems over one setting: what Figures 11, 14 and 16 have in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cause.common.statistics import Mean
from cause.lab.reproduce.cell import Cell, Done, by, of_kind, values
from cause.lab.reproduce.figures.base import evenly, largest
from cause.lab.reproduce.paper import Reported
from cause.lab.reproduce.size import SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, mean_of, percent, thousands

OURS = "frugal"
"""Our system, which is shown with the paper's."""


def swept(size: Size, setting: str, at: Sequence[Any], systems: Sequence[str] = (*SYSTEMS, OURS)) -> list[Cell]:
    """Return the runs: every system at every point of a setting."""
    return [size.counting(system, **{setting: point}) for system in systems for point in at]


def rsn_of(done: Sequence[Done], setting: str) -> dict[tuple[str, Any], Mean]:
    """Return the mean RSN of each system at each point, with its interval."""
    return {(str(key[0]), key[1]): mean_of(runs, "rsn") for key, runs in by(done, "system", setting).items()}


def table_of(done: Sequence[Done], setting: str, label: str, logarithmic: bool = True) -> Summary:
    """Return a table with a row for each system and a column for each point, and its plot."""
    rsn, points = rsn_of(done, setting), sorted(values(done, setting), key=_number) if done else []
    systems = list(dict.fromkeys(system for system, _ in rsn))
    rows, series = [], []
    for system in systems:
        points_of_system = [point for point in points if (system, point) in rsn]
        rows.append([system, *(thousands(rsn.get((system, point))) for point in points)])
        means = [rsn[system, point] for point in points_of_system]
        series.append(Series(system, points_of_system, [m.value for m in means], [m.half_width or 0.0 for m in means]))
    panel = Panel("RSN", label, "retrained samples", series, log=logarithmic)
    note = f"Mean RSN ± half width of the 95 % confidence interval; {counted_size(done)}."
    return Summary(["RSN", *(f"{label} = {point}" for point in points)], rows, [panel], [], [note])


def less_than(done: Sequence[Done], setting: str, paper: Mapping[str, float]) -> list[Claim]:
    """Return the claims of how much less CAUSE retrains than the others, mean over the points."""
    done = evenly(done)
    rsn = rsn_of(done, setting)
    claims = []
    for other, claimed in paper.items():
        points = [point for system, point in rsn if system == "cause" and (other, point) in rsn]
        if points:
            means = {
                name: _less(rsn, name, other, points)
                for name in ("cause", OURS)
                if all((name, point) in rsn for point in points)
            }
            ours = percent(means["cause"])
            further = f" {OURS}: {percent(means[OURS])} less." if OURS in means else ""
            further = f"Mean over {', '.join(map(str, sorted(points, key=_number)))}.{further}"
            claims.append(
                Claim(
                    f"CAUSE retrains less than {other}", percent(claimed), ours, counted_size(done), further
                ).measured(1 - means["cause"], 1 - claimed)
            )
    return claims


def sweep_summary(
    setting: str, label: str, reported: Reported, mine: Callable[[Done], bool] = lambda run: True
) -> Callable[[Sequence[Done]], Summary]:
    """Return the function that summarises a sweep with the paper's mean reductions."""

    def summarise(done: Sequence[Done]) -> Summary:
        counted = [run for run in largest(of_kind(done, "count")) if mine(run)]
        table = table_of(counted, setting, label)
        claims = less_than(counted, setting, reported.values["less"])
        return Summary(table.columns, table.rows, table.panels, claims, table.notes)

    return summarise


def _less(rsn: Mapping[tuple[str, Any], Mean], system: str, other: str, points: Sequence[Any]) -> float:
    shares = [1 - rsn[system, point].value / rsn[other, point].value for point in points]
    return sum(shares) / len(shares)


def _number(point: Any) -> float:
    return float(str(point).removesuffix("GB"))
