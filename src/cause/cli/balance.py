"""`cause balance`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cause.cli import options as o
from cause.cli.output import check_files, deliver, print_table, progress_bar

if TYPE_CHECKING:
    from cause.lab.balance import Spread


def balance(
    seeds: o.Seeds = 30,
    users: Annotated[int, typer.Option(help="Users to draw.")] = 100,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Show how even the shards are, S = 2 to 16: Algorithm 1 as printed, ucdp, and longest first."""
    from dataclasses import asdict

    from cause.lab import balance as evenness

    check_files(plot, out)
    counts = range(2, 17)
    with progress_bar("partitioning") as progress:
        spreads = evenness.measure(counts, users, seeds, progress)
    result = {"users": users, "seeds": seeds, "rows": [asdict(spread) for spread in spreads]}

    def draw(path: Path) -> None:
        from cause.lab.plots import plot_balance

        plot_balance(spreads, path)

    deliver(result, show=lambda: _show(spreads, users, seeds), draw=draw, json=json, plot=plot, out=out)


def _show(spreads: "Sequence[Spread]", users: int, seeds: int) -> None:
    from cause.lab.balance import MEASURED

    by_point = {(spread.when, spread.strategy, spread.shards): spread.spread for spread in spreads}
    print_table(
        f"Spread of shard sizes, (largest - smallest) / mean, {users} users: mean of {seeds} seeds ± 95 %",
        ["shards", *(f"{name}, {when}" for when, name in MEASURED)],
        [
            [str(s), *(f"{by_point[when, name, s]:.1%}" for when, name in MEASURED)]
            for s in sorted({spread.shards for spread in spreads})
        ],
    )
