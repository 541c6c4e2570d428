"""A system on drawn workloads, counting: one simulation for each seed."""

from typing import Any

from cause.engine.presets import parse_system
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.place import Place
from cause.lab.simulate import Setting, simulate
from cause.lab.workload import Workload


def run(settings: Settings, place: Place) -> dict[str, Any]:
    """What each seed's workload cost."""
    name, system = parse_system(settings["system"])
    drawn = {part: settings[part] for part in ("users", "rounds", "samples", "classes", "rho", "alpha")}
    device = {part: settings[part] for part in ("shards", "memory", "slots", "backbone", "classes")}
    ran = [
        simulate(Workload(**drawn, seed=seed).trace(), name, system, Setting(**device, seed=seed))
        for seed in range(settings["seeds"])
    ]
    return {
        "rsn": [each.rsn for each in ran],
        "floor_rsn": [each.floor_rsn for each in ran],
        "rsn_per_round": [each.rsn_per_round for each in ran],
        "requests": [each.requests for each in ran],
        "replays": [each.replays for each in ran],
    }
