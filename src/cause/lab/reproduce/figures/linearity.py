"""Retraining time and energy against the retraining ratio."""

from collections.abc import Sequence
from typing import Any

from cause.device.energy.model import Line
from cause.lab.energy_calibration import settled
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, machine_of
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary


def cells(size: Size) -> list[Cell]:
    """Return the runs: every backbone, unpruned."""
    return [size.cost(backbone, "none") for backbone in size.backbones]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise slopes and R²."""
    measured = of_kind(done, "cost")
    rows, claims = [], []
    for run in measured:
        seconds, joules = seconds_line(run), joules_line(run)
        size, name = cost_size(run), run["backbone"]
        rows.append(
            [name, size, f"{1e3 * seconds.slope:.3g}", f"{seconds.r2:.4f}"]
            + ([f"{joules.slope:.3g}", f"{joules.r2:.4f}"] if joules else ["unknown", "–"])
        )
        claims.append(
            Claim(
                f"time linear in samples, {name}",
                "linear",
                f"R² = {seconds.r2:.4f}",
                size,
                f"{1e3 * seconds.slope:.3g} ms a sample.",
            )
        )
        fit = f"R² = {joules.r2:.4f}" if joules else "energy unknown"
        reason = f"{joules.slope:.3g} J a sample above idle." if joules else f"No energy: {unknown_energy(run)}."
        claims.append(Claim(f"energy linear in samples, {name}", "linear", fit, size, reason))
    panels = [panel for alike in _alike(measured) for panel in _panels(alike)]
    columns = ["backbone", "size", "ms a sample", "R²", "J a sample", "R²"]
    return Summary(columns, rows, panels, claims)


def cost_size(done: Done) -> str:
    """Return how large the measured trainings were."""
    sizes = done["sizes"]
    epochs = f"{done['epochs']} epoch{'s' if done['epochs'] > 1 else ''}"
    some = len(_counted(done)) < len(done.result["points"])
    times = f"{done['repeats']}×" + (", the first not counted" if some else "")
    return f"measured, {min(sizes):,} to {max(sizes):,} samples, {epochs}, {times}, {done['device']}"


def seconds_line(done: Done) -> Line:
    """Return the line of time against samples."""
    return _line(done, 1)


def joules_line(done: Done) -> Line | None:
    """Return the line of energy against samples; None if a run was not metered or the line falls."""
    line = None if any(joules is None for _, _, joules in _counted(done)) else _line(done, 2)
    return line if line and line.slope > 0 else None


def unknown_energy(done: Done) -> str:
    """Return why there is no line of energy."""
    return done.result["unavailable"] or "energy did not grow with the samples"


def _line(done: Done, column: int) -> Line:
    points = _counted(done)
    return Line.through([point[0] for point in points], [point[column] for point in points])


def _counted(done: Done) -> list[Any]:
    """Return samples, seconds and joules of the runs that count."""
    points = done.result["points"]
    return [points[place] for place in settled([point[0] for point in points])]


def _alike(measured: Sequence[Done]) -> list[list[Done]]:
    """Group what may be in one plot: measured on one machine, at one size."""
    groups_: dict[tuple[str, str], list[Done]] = {}
    for run in measured:
        groups_.setdefault((machine_of(run), cost_size(run)), []).append(run)
    return list(groups_.values())


def _panels(alike: Sequence[Done]) -> list[Panel]:
    where = f"{alike[0]['total']:,} samples, {machine_of(alike[0])}"
    metered = [run for run in alike if joules_line(run)]
    parts = [("time", "seconds", 1, alike), ("energy", "joules above idle", 2, metered)]
    return [
        Panel(f"{what}, {where}", "retraining ratio", unit, [_points(run, column) for run in runs], to_scale=True)
        for what, unit, column, runs in parts
        if runs
    ]


def _points(done: Done, column: int) -> Series:
    by_samples: dict[int, list[float]] = {}
    for point in _counted(done):
        by_samples.setdefault(point[0], []).append(point[column])
    ratios = [round(samples / done["total"], 3) for samples in by_samples]
    return Series(done["backbone"], ratios, [sum(values) / len(values) for values in by_samples.values()])


FIGURE = Figure("linearity", "Retraining time and energy against the ratio", paper.LINEARITY, cells, summarise)
