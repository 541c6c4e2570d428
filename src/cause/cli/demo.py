"""`cause demo`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cause.cli import options as o
from cause.cli.output import check_files, deliver, drawing_of, print_table, progress_bar

if TYPE_CHECKING:
    from cause.lab.demo import Outcome


def demo(
    systems: o.SystemNames = None,
    users: Annotated[int, typer.Option(help="Users to share the digits out to.")] = 30,
    rounds: Annotated[int, typer.Option(help="Rounds of learning.")] = 10,
    shards: o.Shards = None,
    rho: o.Rho = None,
    memory: Annotated[str, typer.Option(help="Budget for sub-models.")] = "1MB",
    epochs: Annotated[int, typer.Option(help="Epochs for each segment.")] = 5,
    seed: o.Seed = 0,
    jobs: o.Jobs = None,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Learn scikit-learn's digits with every system, forget, and compare all stored sub-models with a clean room."""
    from dataclasses import asdict
    from importlib.util import find_spec

    from cause.common.machine import cores
    from cause.errors import CauseError, InputError

    for module in ("torch", "torch_pruning", "safetensors", "zstandard", "sklearn"):
        if find_spec(module) is None:
            raise InputError(f"the demo needs {module}: pip install 'cause[demo]'")
    check_files(plot, out)
    from cause.lab import demo as main_job
    from cause.lab.workload import Workload

    share = 0.1 if rho is None else rho
    Workload(users=users, rounds=rounds, rho=share, seed=seed)  # the same limits
    shards = 4 if shards is None else shards
    planned = [
        main_job.Job(name, users, rounds, shards, share, memory, epochs, seed)
        for name in dict.fromkeys(systems or main_job.SYSTEMS)
    ]
    for job in planned:
        main_job.device_for(job)  # fails now if it cannot be made
    with progress_bar("learning and forgetting") as progress:
        outcomes = main_job.run_all(planned, cores() if jobs is None else jobs, progress)
    result = {"jobs": [asdict(job) for job in planned], "rows": [asdict(outcome) for outcome in outcomes]}

    deliver(
        result,
        show=lambda: _show(outcomes),
        draw=drawing_of(lambda: main_job.panels_of(outcomes)),
        json=json,
        plot=plot,
        out=out,
    )
    wrong = [
        outcome.system
        for outcome in outcomes
        if not outcome.stored == outcome.clean == outcome.replayed or outcome.from_scratch is False
    ]
    if wrong:
        raise CauseError(f"not exact: {', '.join(wrong)} differ from the clean room")


def _show(outcomes: "Sequence[Outcome]") -> None:
    from cause.common.units import format_bytes

    first = outcomes[0]
    print_table(
        f"Digits: {first.requests} requests, memory of {format_bytes(first.budget_bytes)}",
        ["system", "accuracy", "RSN", "simulated", "learning s", "forgetting s", "memory used", "stored",
         "= clean room", "= replay"],
        [
            [
                row.system,
                f"{row.accuracy:.1%}",
                f"{row.rsn:,}",
                f"{row.simulated_rsn:,}",
                f"{row.learn_s:.1f}",
                f"{row.forget_s:.1f}",
                format_bytes(row.used_bytes),
                f"{row.stored} of {row.slots}",
                f"{row.clean} of {row.stored}",
                f"{row.replayed} of {row.stored}" + (f", {row.unverifiable} elsewhere" * bool(row.unverifiable)),
            ]
            for row in outcomes
        ],
        note="= clean room: stored sub-models with the same bits as in a device trained without the forgotten samples.",
    )  # fmt: skip
    for row in outcomes:
        if row.from_scratch is not None:
            print(
                f"{row.system}: the state {'equals' if row.from_scratch else 'DIFFERS FROM'}, bit for bit, that of a "
                "device from scratch that got the retained samples alone, in one round and in the reverse order."
            )
