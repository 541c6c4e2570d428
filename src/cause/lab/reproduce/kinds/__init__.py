"""The kinds of runs: each takes a cell's settings and a place, and returns what belongs into a JSON file."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from cause.lab.reproduce.place import Place

Settings = Mapping[str, Any]
Run = Callable[[Settings, Place], dict[str, Any]]

# kind: does it train? Those that do not run several at once.
TRAINS = {"count": False, "control": False, "train": True, "curve": True, "prune": True, "cost": True}


def measures(kind: str, settings: Settings) -> bool:
    """Whether it measures energy or time: then nothing else may run beside it."""
    return kind == "cost" or (kind == "train" and settings["rho"] > 0)


def run(kind: str, settings: Settings, place: Place) -> dict[str, Any]:
    """Make a run. A kind is a file here; torch is imported only by those that train."""
    made: Run = import_module(f"{__name__}.{kind}").run
    return made(settings, place)
