"""`cause systems`."""

from typing import Any

from cause.cli import options as o
from cause.cli.output import print_json, print_table


def systems(json: o.AsJson = False) -> None:
    """Show what exists: systems, partitions, policies, votes and backbones."""
    from dataclasses import asdict

    from cause.common.registry import Registry
    from cause.engine.memory import POLICIES
    from cause.engine.partition import PARTITIONERS
    from cause.engine.presets import BACKBONES, PRESETS
    from cause.engine.voting import VOTES

    tables: dict[str, Registry[Any]] = {"partition": PARTITIONERS, "policy": POLICIES, "vote": VOTES}
    if json:
        result: dict[str, object] = {kind: {n: table.summary(n) for n in table} for kind, table in tables.items()}
        result["system"] = {name: asdict(PRESETS[name]) for name in PRESETS}
        result["backbone"] = {
            name: dict(zip(("dense", "70", "95"), BACKBONES[name], strict=True)) for name in BACKBONES
        }
        print_json(result)
        return
    print_table(
        "Systems (exchange parts with name:part=value,…)",
        ["system", "partition", "shards", "pruning", "policy", "requests", "about"],
        [
            [
                name,
                system.partition,
                "controller" if system.controlled else "fixed",
                system.pruning + (" + bf16" if system.precision == "bf16" else ""),
                system.policy,
                system.requests,
                system.about,
            ]
            for name, system in PRESETS.items()
        ],
        names=7,
    )
    for kind, table in tables.items():
        print_table(kind.capitalize(), ["name", ""], [[name, table.summary(name)] for name in table], names=2)
    print_table(
        "Backbone (the paper's file sizes in MB)",
        ["name", "dense", "70 %", "95 %"],
        [[name, *(f"{size:.2f}" for size in BACKBONES[name])] for name in BACKBONES],
    )
