"""The kinds of runs, one a file: `run` takes a cell's settings and the resources, and returns a result for JSON."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from cause.lab.reproduce.resources import Resources

Settings = Mapping[str, Any]
Run = Callable[[Settings, Resources], dict[str, Any]]

# Whether a kind trains. Several runs of kinds that do not may run at once.
TRAINS = {
    "count": False, "control": False, "spread": False, "map": False, "train": True, "curve": True, "prune": True,
    "cost": True,
}  # fmt: skip


def measures(kind: str, settings: Settings) -> bool:
    """Return whether a run measures energy or time: nothing else may run at the same time."""
    return kind == "cost" or (kind == "train" and settings["rho"] > 0)


def run(kind: str, settings: Settings, resources: Resources) -> dict[str, Any]:
    """Make a run and return its result. torch is imported only by kinds that train."""
    run_kind: Run = import_module(f"{__name__}.{kind}").run
    return run_kind(settings, resources)
