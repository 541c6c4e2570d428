"""`cause balance`."""

from typing import Annotated

import typer

from cause.cli import options as o
from cause.cli.output import check_files, deliver, drawing_of, print_table, progress_bar


def balance(
    seeds: o.Seeds = 30,
    users: Annotated[int, typer.Option(help="Users to draw.")] = 100,
    ray: o.RayRuns = None,
    per_worker: o.PerRun = None,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Show how even the shards are, S = 2 to 16: Algorithm 1 as printed, ucdp, and longest first."""
    from dataclasses import asdict

    from cause.lab.reproduce.figures.balance import SHARDS, Spread, balance_cells, panels_of, table_of
    from cause.lab.reproduce.resources import Resources
    from cause.lab.reproduce.runner import run_cells

    check_files(plot, out)
    cells = balance_cells(SHARDS, users, seeds)
    resources = Resources(cluster=o.cluster_of(ray, per_worker))
    with progress_bar("partitioning") as progress:
        spreads = [Spread.of(done) for done in run_cells(cells, resources, progress)]
    result = {"users": users, "seeds": seeds, "rows": [asdict(spread) for spread in spreads]}

    def show() -> None:
        title = f"Spread of shard sizes, (largest - smallest) / mean, {users} users: mean of {seeds} seeds ± 95 %"
        print_table(title, *table_of(spreads))

    deliver(result, show=show, draw=drawing_of(lambda: panels_of(spreads)), json=json, plot=plot, out=out)
