"""Simulations of a system on drawn workloads, one for each seed."""

from typing import Any

from cause.engine.presets import parse_system
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.place import Place
from cause.lab.simulate import Setting, simulate
from cause.lab.workload import Workload

DRAWN = ("users", "rounds", "samples", "classes", "rho", "alpha", "ages", "scope", "arrivals", "labels")


def run(settings: Settings, place: Place) -> dict[str, Any]:
    """Return what each seed's workload cost."""
    name, system = parse_system(settings["system"])
    drawn = {part: settings[part] for part in DRAWN}
    device = {part: settings[part] for part in ("shards", "memory", "slots", "backbone", "classes")}
    simulations = [
        simulate(Workload(**drawn, seed=seed).trace(), name, system, Setting(**device, seed=seed))
        for seed in range(settings["seeds"])
    ]
    return {
        "rsn": [simulation.rsn for simulation in simulations],
        "floor_rsn": [simulation.floor_rsn for simulation in simulations],
        "rsn_per_round": [simulation.rsn_per_round for simulation in simulations],
        "requests": [simulation.requests for simulation in simulations],
        "replays": [simulation.replays for simulation in simulations],
    }
