"""Simulations as cells: the settings that decide one, and the means over its seeds."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cause.common.statistics import Mean
from cause.errors import InputError
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.simulate import Setting
from cause.lab.workload import Workload

MOST_SEEDS = 10_000


def check_seeds(seeds: int) -> None:
    """Raise an `InputError` if the number of seeds is out of range."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"the number of seeds must be from 1 to {MOST_SEEDS:,}, not {seeds}")


def count_cell(system: str, setting: Setting, source: Workload | Path, seeds: int) -> Cell:
    """Return the cell that simulates a system.

    Parameters
    ----------
    system
        The name of the system.
    setting
        The device; its seed is replaced by those of the cell.
    source
        A workload, which is drawn for each seed, or the file of a trace.
    seeds
        How many seeds, from 0.

    Examples
    --------
    >>> cell = count_cell("cause", Setting(shards=8), Workload(rho=0.3), 20)
    >>> cell.settings["shards"], cell.settings["rho"], cell.settings["seeds"]
    (8, 0.3, 20)
    """
    device = {name: value for name, value in asdict(setting).items() if name != "seed"}
    if device["sub_model_bytes"] is None:
        del device["sub_model_bytes"]
    drawn = {"trace": str(source)} if isinstance(source, Path) else asdict(source)
    drawn.pop("seed", None)
    return Cell("count", {"system": system, **device, **drawn, "seeds": seeds})


@dataclass(frozen=True)
class Row:
    """One system at one point of a sweep: means over all seeds."""

    system: str
    at: Any
    rsn: Mean
    floor_rsn: Mean
    requests: Mean
    replays: Mean
    rsn_per_round: list[float]
    rsn_by_seed: list[int]

    @classmethod
    def of(cls, done: Done, at: Any = None) -> "Row":
        """Return the row of a finished simulation; `at` is its point in the sweep."""
        result = done.result
        means = {name: Mean.of(result[name]) for name in ("rsn", "floor_rsn", "requests", "replays")}
        per_round = [sum(column) / len(column) for column in zip(*result["rsn_per_round"], strict=True)]
        return cls(done["system"], at, **means, rsn_per_round=per_round, rsn_by_seed=result["rsn"])
