"""Simulations of a system, one for each seed: on drawn workloads, or on one trace."""

from collections.abc import Hashable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any

from cause.engine.presets import System, parse_system
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.resources import Resources
from cause.lab.simulate import Setting, Simulation, device_for, simulate
from cause.lab.trace import Trace, read_trace
from cause.lab.workload import Workload

MOST_REMEMBERED = 10_000
_remembered: dict[Hashable, Simulation] = {}
"""Simulations of this process by `_key`: many cells differ in a memory that is never full."""
DRAWN = tuple(part.name for part in fields(Workload) if part.name != "seed")


def run(settings: Settings, resources: Resources) -> dict[str, Any]:
    """Return what each seed's simulation cost."""
    name, system = parse_system(settings["system"])
    device = {part.name: settings[part.name] for part in fields(Setting) if part.name in settings}
    drawn = tuple((part, settings[part]) for part in DRAWN if part in settings)
    run_once = simulate if "trace" in settings else partial(_simulate, drawn)  # the file of a trace may change
    simulations = [
        run_once(trace, name, system, replace(Setting(**device), seed=seed))
        for seed, trace in enumerate(_traces(settings, system.partition))
    ]
    return {
        "rsn": [simulation.rsn for simulation in simulations],
        "floor_rsn": [simulation.floor_rsn for simulation in simulations],
        "rsn_per_round": [simulation.rsn_per_round for simulation in simulations],
        "requests": [simulation.requests for simulation in simulations],
        "replays": [simulation.replays for simulation in simulations],
    }


def _simulate(drawn: Hashable, trace: Trace, name: str, system: System, setting: Setting) -> Simulation:
    """Return a simulation; an earlier one of this process if it has the same result, whatever it is called.

    Parameters
    ----------
    drawn
        What decides the trace, beside the seed.
    trace, name, system, setting
        The arguments of `simulate`.
    """
    key = (drawn, *_deciding(trace, system, setting))
    if key not in _remembered:
        if len(_remembered) >= MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = simulate(trace, name, system, setting)
    return _remembered[key]


def _deciding(trace: Trace, system: System, setting: Setting) -> tuple[Hashable, ...]:
    """Return what decides a simulation of a trace.

    The memory decides by the number of its slots alone, since all simulated sub-models have one size. More slots than
    there can be sub-models change nothing: one a segment, or one a shard where newer ones always replace older ones.
    """
    device = device_for(trace, system, setting)
    most = setting.shards * (1 if system.policy == "latest" else len(trace.rounds) * system.slices)
    slots = min(device.memory.slots, most)
    return replace(system, pruning="none", precision="fp32"), slots, setting.shards, setting.classes, setting.seed


def _traces(settings: Settings, partition: str) -> Iterator[Trace]:
    """Yield the trace of each seed."""
    if "trace" in settings:
        trace = read_trace(settings["trace"], partitions=[partition], classes=settings["classes"])
        yield from (trace for _ in range(settings["seeds"]))
        return
    drawn = {part: settings[part] for part in DRAWN}
    for seed in range(settings["seeds"]):
        yield Workload(**drawn, seed=seed).trace()
