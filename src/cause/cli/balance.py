"""`cause balance`."""

from typing import Annotated

import typer

from cause.cli import options as o
from cause.cli.output import check_files, print_json, print_table, progress_bar, tell_files


def balance(
    seeds: o.Seeds = 30,
    users: Annotated[int, typer.Option(help="Users to draw.")] = 100,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Show how even the shards are, S = 2 to 16: Algorithm 1 as printed, ucdp, and longest first."""
    from dataclasses import asdict

    from cause.evaluation import balance as evenness
    from cause.evaluation.provenance import write_result

    check_files(plot, out)
    counts = range(2, 17)
    with progress_bar("partitioning") as progress:
        spreads = evenness.measure(counts, users, seeds, progress)
    told = {"users": users, "seeds": seeds, "rows": [asdict(each) for each in spreads]}
    if json:
        print_json(told)
    else:
        found = {(each.when, each.strategy, each.shards): each.spread for each in spreads}
        print_table(
            f"Spread of shard sizes, (largest - smallest) / mean, {users} users: mean of {seeds} seeds ± 95 %",
            ["shards", *(f"{name}, {when}" for when, name in evenness.MEASURED)],
            [[str(s), *(f"{found[when, name, s]:.1%}" for when, name in evenness.MEASURED)] for s in counts],
        )
    if plot:
        from cause.evaluation.plots import plot_balance

        plot_balance(spreads, plot)
    if out:
        write_result(out, told)
    if not json:
        tell_files(plot, out)
