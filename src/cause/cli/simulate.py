"""`cause simulate`."""

from dataclasses import replace
from typing import Any

from cause.cli import options as o
from cause.cli.output import print_json, print_table, progress_bar


def simulate(
    trace: o.TraceFile = None,
    system: o.SystemName = "cause",
    partition: o.Partition = None,
    policy: o.Policy = None,
    requests: o.Requests = None,
    slots: o.Slots = None,
    memory: o.MemorySize = None,
    submodel_size: o.SubModelSize = None,
    backbone: o.Backbone = "resnet34",
    shards: o.Shards = None,
    slices: o.Slices = None,
    rehearsal: o.RehearsalShare = None,
    users: o.Users = None,
    rounds: o.Rounds = None,
    samples: o.Samples = None,
    rho: o.Rho = None,
    alpha: o.Alpha = None,
    ages: o.Ages = None,
    scope: o.Scope = None,
    arrivals: o.Arrivals = None,
    labels: o.Labels = None,
    classes: o.Classes = 10,
    seed: o.Seed = 0,
    json: o.AsJson = False,
) -> None:
    """Run one system on a trace, counting instead of training: what each request costs."""
    from cause.engine.presets import parse_system, refuse_taken
    from cause.lab import simulate as simulator
    from cause.lab.workload import Workload

    name, composed = parse_system(system)
    exchanged: dict[str, Any] = {
        "partition": partition,
        "policy": policy,
        "requests": requests,
        "slices": slices,
        "rehearsal": rehearsal,
    }
    composed = replace(composed, **{part: value for part, value in exchanged.items() if value is not None})
    refuse_taken(composed)
    setting = o.setting_of(shards, memory, slots, submodel_size, backbone, classes, seed)
    chosen = o.source_of(
        trace,
        [composed.partition],
        classes,
        seed,
        users=users,
        rounds=rounds,
        samples=samples,
        rho=rho,
        alpha=alpha,
        ages=ages,
        scope=scope,
        arrivals=arrivals,
        labels=labels,
    )
    if isinstance(chosen, Workload):
        with progress_bar("drawing a workload") as progress:
            chosen = chosen.trace(progress)
    with progress_bar(f"simulating {name}") as progress:
        result = simulator.simulate(chosen, name, composed, setting, progress)
    if json:
        print_json(result.as_dict())
        return
    print_table(
        f"{name}: {len(chosen.rounds)} rounds, {chosen.samples:,} samples, {result.requests:,} requests",
        ["", ""],
        [
            ["retrained samples (RSN)", f"{result.rsn:,}"],
            ["floor: an unlimited memory", f"{result.floor_rsn:,}"],
            ["replays (request or batch × shard)", f"{result.replays:,}"],
            ["sub-models stored at the end", f"{len(result.stored):,}"],
            ["RSN in each round", _brief(result.rsn_per_round)],
        ],
    )


def _brief(values: list[int], most: int = 12) -> str:
    shown = " ".join(f"{value:,}" for value in values[:most])
    return shown + (" …" if len(values) > most else "")
