"""Simulations of a system, one for each seed: on drawn workloads, or on one trace."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from cause.engine.presets import parse_system
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.place import Place
from cause.lab.simulate import Setting, simulate
from cause.lab.trace import Trace, read_trace
from cause.lab.workload import Workload

DRAWN = tuple(part.name for part in fields(Workload) if part.name != "seed")


def run(settings: Settings, place: Place) -> dict[str, Any]:
    """Return what each seed's simulation cost."""
    name, system = parse_system(settings["system"])
    device = {part.name: settings[part.name] for part in fields(Setting) if part.name in settings}
    simulations = [
        simulate(trace, name, system, replace(Setting(**device), seed=seed))
        for seed, trace in enumerate(_traces(settings, system.partition))
    ]
    return {
        "rsn": [simulation.rsn for simulation in simulations],
        "floor_rsn": [simulation.floor_rsn for simulation in simulations],
        "rsn_per_round": [simulation.rsn_per_round for simulation in simulations],
        "requests": [simulation.requests for simulation in simulations],
        "replays": [simulation.replays for simulation in simulations],
    }


def _traces(settings: Settings, partition: str) -> Iterator[Trace]:
    """Yield the trace of each seed."""
    if "trace" in settings:
        trace = read_trace(settings["trace"], partitions=[partition], classes=settings["classes"])
        yield from (trace for _ in range(settings["seeds"]))
        return
    drawn = {part: settings[part] for part in DRAWN}
    for seed in range(settings["seeds"]):
        yield Workload(**drawn, seed=seed).trace()
