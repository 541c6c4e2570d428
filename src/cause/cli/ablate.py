"""`cause ablate`."""

from cause.cli import options as o
from cause.cli.output import check_files, deliver, drawing_of, print_table, progress_bar


def ablate(
    seeds: o.Seeds = 10,
    shards: o.Shards = None,
    rho: o.Rho = None,
    ages: o.Ages = None,
    scope: o.Scope = None,
    arrivals: o.Arrivals = None,
    labels: o.Labels = None,
    jobs: o.Jobs = None,
    ray: o.RayRuns = None,
    per_worker: o.PerRun = None,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Show what each part of CAUSE contributes on the paper's workload, at 2 GB and where memory binds."""
    from dataclasses import asdict

    from cause.lab.reproduce.figures import ablation
    from cause.lab.reproduce.figures.comparison import rows_of
    from cause.lab.reproduce.runner import run_cells

    check_files(plot, out)
    setting = o.setting_of(shards, None, None, None, "resnet34", 10, 0)
    drawn = o.drawn_of(10, 0, rho=rho, ages=ages, scope=scope, arrivals=arrivals, labels=labels)
    cells = ablation.ablation_cells(drawn, setting, seeds)
    with progress_bar("simulating") as progress:
        rows = rows_of(run_cells(cells, o.resources_of(jobs, ray, per_worker), progress), "slots")
    result = {
        "workload": asdict(drawn),
        "setting": asdict(setting),
        "seeds": seeds,
        "rows": [asdict(row) for row in rows],
    }

    def show() -> None:
        where = f"S={setting.shards}, ρ={drawn.rho}"
        title = f"Retrained samples on the paper's workload, {where}: mean of {seeds} seeds ± 95 %"
        print_table(title, *ablation.table_of(rows, setting.memory), note=ablation.NOTE)

    deliver(
        result,
        show=show,
        draw=drawing_of(lambda: ablation.panels_of(rows, setting.memory)),
        json=json,
        plot=plot,
        out=out,
    )
