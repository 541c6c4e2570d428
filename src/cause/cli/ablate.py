"""`cause ablate`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cause.cli import options as o
from cause.cli.output import check_files, deliver, print_table, progress_bar

if TYPE_CHECKING:
    from cause.lab.compare import Row


def ablate(
    seeds: o.Seeds = 10,
    shards: o.Shards = None,
    rho: o.Rho = None,
    ages: o.Ages = None,
    scope: o.Scope = None,
    arrivals: o.Arrivals = None,
    labels: o.Labels = None,
    jobs: o.Jobs = None,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Show what each part of CAUSE contributes on the paper's workload, at 2 GB and where memory binds."""
    from dataclasses import asdict

    from cause.common.machine import cores
    from cause.errors import InputError
    from cause.lab import compare as comparison
    from cause.lab.ablation import TIGHT_SLOTS, ablation_jobs, columns

    check_files(plot, out)
    setting = o.setting_of(shards, None, None, None, "resnet34", 10, 0)
    if setting.shards > min(TIGHT_SLOTS):
        raise InputError(
            f"the ablation looks at memories of {' and '.join(map(str, TIGHT_SLOTS))} slots: they hold the heads of at "
            f"most {min(TIGHT_SLOTS)} shards, not {setting.shards}"
        )
    drawn = o.drawn_of(10, 0, rho=rho, ages=ages, scope=scope, arrivals=arrivals, labels=labels)
    with progress_bar("simulating") as progress:
        rows = comparison.compare(ablation_jobs(drawn, setting, seeds), cores() if jobs is None else jobs, progress)
    titles = columns(setting)
    result = {
        "workload": asdict(drawn),
        "setting": asdict(setting),
        "seeds": seeds,
        "rows": comparison.as_dict(rows),
    }

    def draw(path: Path) -> None:
        from cause.lab.plots import plot_ablation

        plot_ablation(rows, titles, path)

    deliver(
        result,
        show=lambda: _show(rows, titles, f"S={setting.shards}, ρ={drawn.rho}", seeds),
        draw=draw,
        json=json,
        plot=plot,
        out=out,
    )


def _show(rows: "Sequence[Row]", titles: Sequence[tuple[int | None, str]], where: str, seeds: int) -> None:
    from cause.lab.ablation import VARIANTS
    from cause.lab.compare import ratio

    by_point = {(row.system, row.at): row for row in rows}
    table = []
    for shown, system in VARIANTS:
        line = [shown]
        for at, _ in titles:
            share = ratio(by_point[system, at], rows, "cause")
            line += [f"{by_point[system, at].rsn:,.0f}", "–" if share is None else f"{share:.0%}"]
        table.append(line)
    print_table(
        f"Retrained samples on the paper's workload, {where}: mean of {seeds} seeds ± 95 %",
        ["", *(name for _, title in titles for name in (title, "of CAUSE's"))],
        table,
        note="Rows with · change one part of CAUSE. Sub-models are counted in slots: 2 GB are 67 of CAUSE's.",
    )
