"""`cause compare`."""

from typing import Annotated

import typer

from cause.cli import options as o
from cause.cli.output import check_files, deliver, drawing_of, print_table, progress_bar


def compare(
    systems: o.SystemNames = None,
    trace: o.TraceFile = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            help="Vary one setting: shards=1,4,16, memory=0.5GB,2GB, slots=8,16, rho=0.1,0.5 or ages=current,uniform."
        ),
    ] = None,
    seeds: o.Seeds = 10,
    shards: o.Shards = None,
    memory: o.MemorySize = None,
    slots: o.Slots = None,
    submodel_size: o.SubModelSize = None,
    backbone: o.Backbone = "resnet34",
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
    jobs: o.Jobs = None,
    ray: o.RayRuns = None,
    per_worker: o.PerRun = None,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Run several systems on the same traces and show what each retrains, over a sweep if you like."""
    from dataclasses import asdict

    from cause.engine.presets import parse_system, refuse_taken
    from cause.errors import InputError
    from cause.lab.reproduce.figures import comparison
    from cause.lab.reproduce.runner import run_cells
    from cause.lab.workload import Workload

    check_files(plot, out)
    if trace is not None and ray is not None:
        raise InputError("a trace names users, and Ray would keep copies of it: leave out --trace or --ray")
    names = list(dict.fromkeys(systems or comparison.DEFAULT_SYSTEMS))
    swept = None if sweep is None else comparison.Sweep.parse(sweep)
    if swept:
        fixed: dict[str, list[object]] = {"shards": [shards], "rho": [rho], "ages": [ages]}
        if any(value is not None for value in fixed.get(swept.name, [memory, slots])):
            raise InputError(f"{swept.name} is swept: do not set it (or the memory) to one value too")
    setting = o.setting_of(shards, memory, slots, submodel_size, backbone, classes, 0)
    composed = [parse_system(name)[1] for name in names]
    for system in composed:
        refuse_taken(system)
    partitions = {system.partition for system in composed}
    source = o.source_of(
        trace,
        partitions,
        classes,
        0,
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
    swept_name = swept.name if swept else None
    with o.trace_file(source, trace) as file, progress_bar("simulating") as progress:
        planned = comparison.comparison_cells(names, source, setting, seeds, swept, file)
        rows = comparison.rows_of(run_cells(planned, o.resources_of(jobs, ray, per_worker), progress), swept_name)
    result = {
        "workload": asdict(source) if isinstance(source, Workload) else {"trace": str(trace)},
        "setting": asdict(setting),
        "sweep": asdict(swept) if swept else None,
        "seeds": seeds,
        "rows": [asdict(row) for row in rows],
    }

    def show() -> None:
        print_table(
            f"Retrained samples, mean of {seeds} seeds ± 95 % confidence",
            *comparison.table_of(rows, swept_name),
            note="floor: the same system with an unlimited memory. replays: pairs of request (or batch) and shard.",
            names=2 if swept else 1,
        )

    deliver(
        result,
        show=show,
        draw=drawing_of(lambda: comparison.panels_of(rows, swept_name)),
        json=json,
        plot=plot,
        out=out,
    )
