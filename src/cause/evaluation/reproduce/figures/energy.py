"""Energy of forgetting: retrained samples from the simulator, times what a sample costs on this machine."""

from collections.abc import Mapping, Sequence
from typing import Any

from cause.evaluation.reproduce.cell import Cell, Done, by, of_kind, values
from cause.evaluation.reproduce.figures.base import largest
from cause.evaluation.reproduce.figures.linearity import cost_size
from cause.evaluation.reproduce.size import SYSTEMS, Size
from cause.evaluation.reproduce.summary import Claim, Panel, Series, Summary, counted_size, mean_of, percent
from cause.presets import parse_system

NOTE = (
    "Calculated, not measured: mean RSN of the simulator × the measured cost of one retrained sample of that system's "
    "network (dense, pruned or masked) on this machine, at the epochs named. Only ratios compare with the paper."
)


def energy_cells(size: Size, setting: str, at: Sequence[Any], fixed: Mapping[str, Any]) -> list[Cell]:
    """Simulations with the sizes of each backbone, and the cost of each kind of network."""
    made = []
    for backbone in size.energy_backbones:
        for system in SYSTEMS:
            made.append(size.cost(backbone, _pruning(system)))
            made += [size.counting(system, backbone=backbone, **fixed, **{setting: point}) for point in at]
    return made


def energy_summary(
    done: Sequence[Done], setting: str, label: str, shares: Mapping[str, float], last: bool = False
) -> Summary:
    """CAUSE's energy as a share of the others', mean over the backbones and points, or at the last point."""
    counted, unit = largest(of_kind(done, "count")), ""
    costs = {(each["backbone"], each["pruning"]): each for each in sorted(of_kind(done, "cost"), key=_total)}
    unit, line = (
        ("J", "joules_line")
        if costs and all(c.result["joules_line"] for c in costs.values())
        else ("s", "seconds_line")
    )
    points = sorted(values(counted, setting))
    found, rows, panels = {}, [], []
    for (backbone,), own in by(counted, "backbone").items():
        lines = []
        for (system,), runs in by(own, "system").items():
            cost = costs.get((backbone, _pruning(system)))
            if cost is None:
                continue
            slope = cost.result[line]["slope"]
            at = {each[setting]: mean_of([each], "rsn").value * slope for each in runs}
            found.update({(backbone, system, point): value for point, value in at.items()})
            rows.append(
                [f"{backbone}, {system}", f"{1e3 * slope:.3g}", *(f"{at[p]:,.1f}" if p in at else "–" for p in points)]
            )
            there = [point for point in points if point in at]
            lines.append(Series(system, there, [at[point] for point in there]))
        panels.append(Panel(backbone, label, f"{unit}, calculated", lines, log=True))
    size = "; ".join(filter(None, [counted_size(counted), *sorted({cost_size(each) for each in costs.values()})]))
    chosen = points[-1:] if last else points
    what, where = (
        ("energy" if unit == "J" else "time"),
        f"at {label} = {points[-1]}" if last and points else f"over {label}",
    )
    reasons = sorted({c.result["unavailable"] for c in costs.values() if c.result["unavailable"]})
    claims = []
    for other, claimed in shares.items():
        pairs = [(b, p) for b, s, p in found if s == "cause" and p in chosen and (b, other, p) in found]
        if pairs:
            ratios = [found[b, "cause", p] / found[b, other, p] for b, p in pairs if found[b, other, p] > 0]
            ours = percent(sum(ratios) / len(ratios)) if ratios else "–"
            claims.append(
                Claim(f"CAUSE's {what} as a share of {other}'s, {where}", percent(claimed), ours, size, "Calculated.")
            )
    notes = [NOTE, *(f"Energy is unknown here, so seconds are shown instead: {reason}." for reason in reasons)]
    return Summary(["", f"m{unit} a sample", *(f"{label} = {p}" for p in points)], rows, panels, claims, notes)


def _total(done: Done) -> int:
    """The largest measurement comes last, and counts."""
    return int(done["total"])


def _pruning(system: str) -> str:
    return parse_system(system)[1].pruning
