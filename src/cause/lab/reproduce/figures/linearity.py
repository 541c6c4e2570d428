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
    """Every backbone, dense."""
    return [size.cost(backbone, "none") for backbone in size.backbones]


def summarise(done: Sequence[Done]) -> Summary:
    """Slopes and R²."""
    measured = of_kind(done, "cost")
    rows, claims = [], []
    for each in measured:
        seconds, joules = seconds_line(each), joules_line(each)
        size, name = cost_size(each), each["backbone"]
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
        told = f"R² = {joules.r2:.4f}" if joules else "energy unknown"
        reason = f"{joules.slope:.3g} J a sample above idle." if joules else f"No energy: {unknown_energy(each)}."
        claims.append(Claim(f"energy linear in samples, {name}", "linear", told, size, reason))
    panels = [panel for alike in _alike(measured) for panel in _panels(alike)]
    columns = ["backbone", "size", "ms a sample", "R²", "J a sample", "R²"]
    return Summary(columns, rows, panels, claims)


def cost_size(done: Done) -> str:
    """How large the measured trainings were."""
    sizes = done["sizes"]
    epochs = f"{done['epochs']} epoch{'s' if done['epochs'] > 1 else ''}"
    some = len(_counted(done)) < len(done.result["points"])
    times = f"{done['repeats']}×" + (", the first not counted" if some else "")
    return f"measured, {min(sizes):,} to {max(sizes):,} samples, {epochs}, {times}, {done['device']}"


def seconds_line(done: Done) -> Line:
    """Time against samples."""
    return _line(done, 1)


def joules_line(done: Done) -> Line | None:
    """Energy against samples; none where a run was not metered, or where the line falls: see `unknown_energy`."""
    line = None if any(joules is None for _, _, joules in _counted(done)) else _line(done, 2)
    return line if line and line.slope > 0 else None


def unknown_energy(done: Done) -> str:
    """Why there is no line."""
    return done.result["unavailable"] or "energy did not grow with the samples"


def _line(done: Done, column: int) -> Line:
    points = _counted(done)
    return Line.through([point[0] for point in points], [point[column] for point in points])


def _counted(done: Done) -> list[Any]:
    """Samples, seconds and joules of the runs that count."""
    points = done.result["points"]
    return [points[place] for place in settled([point[0] for point in points])]


def _alike(measured: Sequence[Done]) -> list[list[Done]]:
    """What may stand in one picture: measured on one machine, at one size."""
    found: dict[tuple[str, str], list[Done]] = {}
    for each in measured:
        found.setdefault((machine_of(each), cost_size(each)), []).append(each)
    return list(found.values())


def _panels(alike: Sequence[Done]) -> list[Panel]:
    where = f"{alike[0]['total']:,} samples, {machine_of(alike[0])}"
    metered = [each for each in alike if joules_line(each)]
    told = [("time", "seconds", 1, alike), ("energy", "joules above idle", 2, metered)]
    return [
        Panel(f"{what}, {where}", "retraining ratio", unit, [_points(each, column) for each in own], to_scale=True)
        for what, unit, column, own in told
        if own
    ]


def _points(done: Done, column: int) -> Series:
    found: dict[int, list[float]] = {}
    for point in _counted(done):
        found.setdefault(point[0], []).append(point[column])
    ratios = [round(samples / done["total"], 3) for samples in found]
    return Series(done["backbone"], ratios, [sum(each) / len(each) for each in found.values()])


FIGURE = Figure("linearity", "Retraining time and energy against the ratio", paper.LINEARITY, cells, summarise)
