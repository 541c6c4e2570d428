"""`cause systems`."""

from typing import Any

from cause.cli import options as o
from cause.cli.output import print_json, print_table


def systems(json: o.AsJson = False) -> None:
    """Show what exists, of other packages too: systems, partitions, policies, votes, learners and backbones."""
    from dataclasses import asdict

    from cause.common.registry import Registry
    from cause.engine.memory import POLICIES
    from cause.engine.partition import PARTITIONERS
    from cause.engine.presets import BACKBONES, PRESETS
    from cause.engine.voting import VOTES
    from cause.learners.described import LEARNERS

    registries: list[Registry[Any]] = [PARTITIONERS, POLICIES, VOTES, LEARNERS]
    tables = {registry.kind: registry.summaries() for registry in registries}
    refused = [
        f"the {registry.kind} {name!r} of the package {package!r} is refused: the name is ours"
        for registry in registries
        for name, package in sorted(registry.taken().items())
    ]
    if json:
        result: dict[str, object] = {**tables}
        result["system"] = {name: asdict(PRESETS[name]) for name in PRESETS}
        result["backbone"] = {
            name: dict(zip(("dense", "70", "95"), BACKBONES[name], strict=True)) for name in BACKBONES
        }
        print_json(result | ({"refused": refused} if refused else {}))
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
        print_table(kind.capitalize(), ["name", ""], [[name, line] for name, line in table.items()], names=2)
    print_table(
        "Backbone (the paper's file sizes in MB)",
        ["name", "dense", "70 %", "95 %"],
        [[name, *(f"{size:.2f}" for size in BACKBONES[name])] for name in BACKBONES],
    )
    for line in refused:
        print(line)
