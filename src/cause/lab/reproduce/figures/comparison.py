"""Several systems on the same traces, over a sweep of shards, memory, slots, ρ or ages: `cause compare`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cause.common.registry import Registry
from cause.engine.presets import parse_system
from cause.errors import InputError
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, largest
from cause.lab.reproduce.simulations import Row, check_seeds, count_cell
from cause.lab.reproduce.size import SHARDS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, percent, ratio
from cause.lab.simulate import Setting, device_for
from cause.lab.trace import Trace
from cause.lab.workload import Workload

DEFAULT_SYSTEMS = ("cause", "cause-no-sc", "sisa", "arcane", "omp-70", "omp-95", "frugal")
SWEEPS: Registry[type] = Registry("sweep", {"shards": int, "memory": str, "slots": int, "rho": float, "ages": str})
DRAWN = {"rho": "ρ is", "ages": "the ages are"}
"""The sweeps that change the workload, not the device."""


@dataclass(frozen=True)
class Sweep:
    """One setting and the values that it takes.

    >>> Sweep.parse("shards=1,4")
    Sweep(name='shards', values=(1, 4))
    """

    name: str
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, text: str) -> "Sweep":
        """Parse name=value,value,…; raise an `InputError` if it is not that."""
        name, _, listed = text.partition("=")
        kind = SWEEPS[name]
        try:
            values = tuple(dict.fromkeys(kind(value.strip()) for value in listed.split(",") if value.strip()))
        except ValueError:
            raise InputError(f"a sweep of {name} takes {kind.__name__} values, not {listed!r}") from None
        if not values:
            raise InputError(f"a sweep needs values: {name}=…,…")
        return cls(name, values)


def comparison_cells(
    systems: Sequence[str],
    source: Workload | Trace,
    setting: Setting,
    seeds: int,
    sweep: Sweep | None = None,
    file: Path | None = None,
) -> list[Cell]:
    """Return the simulations of a comparison. All are checked, so that none fails after others have run.

    Parameters
    ----------
    systems
        The names of the systems.
    source
        A workload that is drawn for each seed, or a trace.
    setting
        The device.
    seeds
        How many seeds, from 0.
    sweep
        The setting to vary; None for a single point.
    file
        The file of the trace, which the simulations read.

    Raises
    ------
    InputError
        If a system, a setting or the sweep is wrong.
    """
    check_seeds(seeds)
    if sweep and sweep.name in DRAWN and isinstance(source, Trace):
        raise InputError(f"{DRAWN[sweep.name]} a property of a drawn workload: a trace cannot be swept over it")
    cells = []
    for at in sweep.values if sweep else (None,):
        setting_at, source_at = setting, source
        if sweep and sweep.name in DRAWN and isinstance(source_at, Workload):
            source_at = replace(source_at, **{sweep.name: at})
        elif sweep and sweep.name == "memory":
            setting_at = replace(setting, memory=at, slots=None)
        elif sweep:
            setting_at = replace(setting, **{sweep.name: at})
        for name in systems:
            _check(name, source if isinstance(source, Trace) else Trace([]), setting_at, sweep)
            if isinstance(source_at, Workload):
                cells.append(count_cell(name, setting_at, source_at, seeds))
            elif file is not None:
                cells.append(count_cell(name, setting_at, file, seeds))
    return cells


def _check(name: str, trace: Trace, setting: Setting, sweep: Sweep | None) -> None:
    """Raise an `InputError` for an unknown name, or a memory that cannot hold the heads."""
    _, system = parse_system(name)
    if system.partition == "given" and sweep and sweep.name == "shards":
        raise InputError(f"{name} takes the number of shards from the trace: it cannot be swept")
    device_for(trace, system, setting)


def rows_of(done: Sequence[Done], sweep: str | None) -> list[Row]:
    """Return a row for each finished simulation, in their order."""
    return [Row.of(run, run[sweep] if sweep else None) for run in done]


def table_of(rows: Sequence[Row], sweep: str | None) -> tuple[list[str], list[list[str]]]:
    """Return the columns and lines of the table that the command prints."""
    names = list(dict.fromkeys(row.system for row in rows))
    against = "sisa" if "sisa" in names else names[0]
    columns = [*([sweep] if sweep else []), "system", "RSN", f"of {against}'s", "floor", "requests", "replays"]
    lines = [
        [
            *([str(row.at)] if sweep else []),
            row.system,
            f"{row.rsn:,.0f}",
            "–" if (share := share_of(row, rows, against)) is None else f"{share:.1%}",
            f"{row.floor_rsn.value:,.0f}",
            f"{row.requests.value:,.1f}",
            f"{row.replays.value:,.1f}",
        ]
        for row in rows
    ]
    return columns, lines


def share_of(row: Row, rows: Sequence[Row], against: str) -> float | None:
    """Return a row's RSN as a share of another system's at the same point; None if that is missing or 0."""
    other = next((candidate for candidate in rows if candidate.at == row.at and candidate.system == against), None)
    return ratio(row.rsn.value, other.rsn.value) if other else None


def panels_of(rows: Sequence[Row], sweep: str | None) -> list[Panel]:
    """Return the plots: bars and rounds for a single point, or lines over the sweep."""
    systems = list(dict.fromkeys(row.system for row in rows))
    if sweep:
        lines = []
        for system in systems:
            own = [row for row in rows if row.system == system]
            errors = [row.rsn.half_width or 0.0 for row in own]
            lines.append(Series(system, [row.at for row in own], [row.rsn.value for row in own], errors))
        return [Panel("RSN", sweep, "retrained samples", lines, log=True)]
    bars = [
        Series("RSN", systems, [row.rsn.value for row in rows], [row.rsn.half_width or 0.0 for row in rows]),
        Series("floor: unlimited memory", systems, [row.floor_rsn.value for row in rows]),
    ]
    rounds = [Series(row.system, list(range(1, len(row.rsn_per_round) + 1)), row.rsn_per_round) for row in rows]
    return [
        Panel("RSN", "", "retrained samples", bars, bars=True),
        Panel("RSN of each round", "round", "retrained samples", rounds, log=True),
    ]


def cells(size: Size) -> list[Cell]:
    """Return the runs: the systems over the number of shards."""
    return [size.counting(system, shards=shards) for shards in SHARDS for system in DEFAULT_SYSTEMS]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise what each system retrains, and what share of SISA's CAUSE does."""
    counted = largest(of_kind(done, "count"))
    rows = rows_of(counted, "shards")
    columns, lines = table_of(rows, "shards")
    claims = []
    for shards in dict.fromkeys(row.at for row in rows):
        share = {
            name: share_of(row, rows, "sisa")
            for name in ("cause", "frugal")
            for row in rows
            if row.at == shards and row.system == name
        }
        if share.get("cause") is not None:
            further = (
                f"frugal: {percent(share['frugal'])}." if share.get("frugal") is not None else "frugal was not run."
            )
            claims.append(
                Claim(
                    f"CAUSE's RSN as a share of SISA's, S = {shards}",
                    "less",
                    percent(share["cause"]),
                    counted_size(counted),
                    further,
                )
            )
    return Summary(columns, lines, panels_of(rows, "shards"), claims)


FIGURE = Figure("compare", "Every system on one workload", paper.COMPARISON, cells, summarise)
