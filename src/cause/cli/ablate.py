"""`cause ablate`."""

from cause.cli import options as o
from cause.cli.output import check_out, check_plot, print_json, print_table, progress_bar


def ablate(
    seeds: o.Seeds = 10,
    shards: o.Shards = 4,
    rho: o.Rho = None,
    jobs: o.Jobs = None,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Show what each part of CAUSE contributes on the paper's workload, at 2 GB and where memory binds."""
    from dataclasses import asdict

    from cause.evaluation import compare as comparison
    from cause.evaluation.ablation import VARIANTS, ablation_jobs, columns
    from cause.evaluation.provenance import write_result
    from cause.machine import cores

    check_plot(plot)
    check_out(out)
    setting = o.setting_of(shards, None, None, None, "resnet34", 10, 0)
    drawn = o.drawn_of(10, 0, rho=rho)
    with progress_bar("simulating") as progress:
        rows = comparison.compare(ablation_jobs(drawn, setting, seeds), cores() if jobs is None else jobs, progress)
    titles = columns(setting)
    told = {
        "workload": asdict(drawn),
        "setting": asdict(setting),
        "seeds": seeds,
        "rows": comparison.as_dict(rows),
    }
    if plot:
        from cause.evaluation.plots import plot_ablation

        plot_ablation(rows, titles, plot)
    if out:
        write_result(out, told)
    if json:
        print_json(told)
        return
    found = {(row.system, row.at): row for row in rows}
    table = []
    for shown, system in VARIANTS:
        line = [shown]
        for at, _ in titles:
            row = found[system, at]
            line += [f"{row.rsn:,.0f}", f"{row.rsn.value / found['cause', at].rsn.value:.0%}"]
        table.append(line)
    print_table(
        f"Retrained samples on the paper's workload, S={shards}, ρ={drawn.rho}: mean of {seeds} seeds ± 95 %",
        ["", *(name for _, title in titles for name in (title, "of CAUSE's"))],
        table,
        note="Indented rows change one part of CAUSE. Sub-models are counted in slots: 2 GB are 67 of CAUSE's.",
    )
    for path in filter(None, (plot, out)):
        print(f"wrote {path}")
