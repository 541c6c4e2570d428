"""Energy of forgetting: retrained samples from the simulator, times what a sample costs on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cause.engine.presets import parse_system
from cause.lab.reproduce.cell import Cell, Done, by, of_kind, values
from cause.lab.reproduce.figures.base import evenly, largest, machine_of
from cause.lab.reproduce.figures.linearity import cost_size, joules_line, seconds_line, unknown_energy
from cause.lab.reproduce.size import SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, mean_of, percent

NOTE = (
    "Calculated, not measured: mean RSN of the simulator × the measured cost of one retrained sample of that system's "
    "network (dense, pruned or masked) on this machine, at the epochs named. Only ratios compare with the paper."
)


def energy_cells(size: Size, setting: str, at: Sequence[Any], fixed: Mapping[str, Any]) -> list[Cell]:
    """Return the runs: simulations with the sizes of each backbone, and the cost of each kind of network."""
    cells = []
    for backbone in size.energy_backbones:
        for system in SYSTEMS:
            cells.append(size.cost(backbone, _pruning(system)))
            cells += [size.counting(system, backbone=backbone, **fixed, **{setting: point}) for point in at]
    return cells


@dataclass(frozen=True)
class Costs:
    """Costs of a sample that may be compared: measured on one machine, with the same data, sizes and epochs."""

    machine: str
    size: str
    of: dict[tuple[str, str], Done]
    """The measurements by backbone and pruning."""

    @property
    def unit(self) -> str:
        """J, or s if the joules of a network are unknown."""
        return "J" if all(map(joules_line, self.of.values())) else "s"

    def slope(self, backbone: str, system: str) -> float | None:
        """Return the cost of a sample; None if it was not measured, or did not grow with the samples."""
        cost = self.of.get((backbone, _pruning(system)))
        return self._slope(cost) if cost and self._slope(cost) > 0 else None

    def useless(self) -> list[str]:
        """Return the networks whose cost did not grow with the samples."""
        return [f"{backbone}, {pruning}" for (backbone, pruning), cost in self.of.items() if self._slope(cost) <= 0]

    def _slope(self, cost: Done) -> float:
        line = joules_line(cost) if self.unit == "J" else seconds_line(cost)
        assert line is not None
        return line.slope


def costs_of(done: Sequence[Done]) -> list[Costs]:
    """Group measurements that may be compared; those of the most samples come last."""
    alike_runs: dict[tuple[str, str, str], dict[tuple[str, str], Done]] = {}
    for run in sorted(of_kind(done, "cost"), key=_total):
        alike = machine_of(run), f"{cost_size(run)}, {machine_of(run)}"
        alike_runs.setdefault((*alike, run["dataset"]), {})[run["backbone"], run["pruning"]] = run
    return [Costs(machine, size, of_network) for (machine, size, _), of_network in alike_runs.items()]


def energy_summary(
    done: Sequence[Done], setting: str, label: str, shares: Mapping[str, float], last: Any = None
) -> Summary:
    """Summarise CAUSE's energy as a share of the others', mean over the backbones and points; or at the last point.

    Where the paper has the shares at one point only, `last` says which: they are marked where ours are at another.
    """
    counted, costs = evenly(largest(of_kind(done, "count"))), costs_of(done)
    points = sorted(values(counted, setting))
    chosen = points if last is None else points[-1:]
    where = f"over {label}" if last is None else f"at {label} = {', '.join(map(str, chosen))}"
    mark = "" if last is None or chosen == [last] else f" ({label} = {last})"
    rows, panels, claims = [], [], []
    for cost in costs:
        energy: dict[tuple[str, str, Any], float] = {}
        for (backbone,), of_backbone in by(counted, "backbone").items():
            lines = []
            for (system,), runs in by(of_backbone, "system").items():
                slope = cost.slope(backbone, system)
                if slope is None:
                    continue
                at = {run[setting]: mean_of([run], "rsn").value * slope for run in runs}
                energy.update({(backbone, system, point): value for point, value in at.items()})
                shown = [f"{at[p]:,.1f} {cost.unit}" if p in at else "–" for p in points]
                rows.append([f"{backbone}, {system}", cost.size, f"{1e3 * slope:.3g} m{cost.unit}", *shown])
                simulated = [point for point in points if point in at]
                lines.append(Series(system, simulated, [at[point] for point in simulated]))
            if lines:
                panels.append(Panel(f"{backbone}, {cost.machine}", label, f"{cost.unit}, calculated", lines, log=True))
        what = "energy" if cost.unit == "J" else "time"
        for other, claimed in shares.items():
            pairs = [(b, p) for b, s, p in energy if s == "cause" and p in chosen and (b, other, p) in energy]
            ratios = [energy[b, "cause", p] / energy[b, other, p] for b, p in pairs if energy[b, other, p] > 0]
            if ratios:
                claim, ours = f"CAUSE's {what} as a share of {other}'s, {where}", percent(sum(ratios) / len(ratios))
                backbones = ", ".join(dict.fromkeys(b for b, _ in pairs))
                size = f"{counted_size(counted)}; {cost.size}"
                claims.append(Claim(claim, percent(claimed) + mark, ours, size, f"Calculated, mean of {backbones}."))
    reasons = sorted({unknown_energy(c) for cost in costs for c in cost.of.values() if not joules_line(c)})
    notes = [NOTE, *(f"Energy is unknown here, so seconds are shown instead: {reason}." for reason in reasons)]
    notes += [f"Left out, for it did not grow with the samples: {run}; {c.size}." for c in costs for run in c.useless()]
    return Summary(["", "size", "a sample", *(f"{label} = {p}" for p in points)], rows, panels, claims, notes)


def _total(done: Done) -> int:
    """Return a sort key: the largest measurement comes last and replaces smaller ones."""
    return int(done["total"])


def _pruning(system: str) -> str:
    return parse_system(system)[1].pruning
