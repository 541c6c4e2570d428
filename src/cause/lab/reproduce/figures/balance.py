"""How even the shards are, with Algorithm 1 as printed, ucdp and longest first: `cause balance`."""

from collections.abc import Sequence
from dataclasses import dataclass

from cause.common.statistics import Mean
from cause.errors import InputError
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, largest
from cause.lab.reproduce.kinds.spread import FIRST, LAST, PRINTED
from cause.lab.reproduce.simulations import check_seeds
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, mean_of, percent

MOST_USERS = 2_000
"""Algorithm 1 as printed is quadratic in the users."""
SHARDS = range(2, 17)
USERS = 100
PER_USER = 500
"""Samples of a user: the paper's mean, 50,000 samples of 100 users."""
MEASURED = ((FIRST, PRINTED), (FIRST, "ucdp"), (FIRST, "balanced"), (LAST, "ucdp"), (LAST, "balanced"))


@dataclass(frozen=True)
class Spread:
    """(largest - smallest) / mean of the shard sizes, over the seeds."""

    when: str
    strategy: str
    shards: int
    spread: Mean

    @classmethod
    def of(cls, done: Done) -> "Spread":
        """Return the spread that a finished run measured."""
        return cls(done["when"], done["strategy"], done["shards"], mean_of([done], "spread"))


def balance_cells(shard_counts: Sequence[int], users: int, seeds: int) -> list[Cell]:
    """Return the runs: every strategy on the paper's workload with a fixed number of shards and no requests.

    Parameters
    ----------
    shard_counts
        The numbers of shards.
    users
        How many users are drawn.
    seeds
        How many seeds, from 0.

    Raises
    ------
    InputError
        If there are too few or too many users or seeds.
    """
    least = 2 * max(shard_counts)
    if not least <= users <= MOST_USERS:
        raise InputError(f"balance is shown for {least} to {MOST_USERS:,} users, not {users}")
    check_seeds(seeds)
    settings = {"users": users, "samples": PER_USER * users, "seeds": seeds}
    return [
        Cell("spread", {"when": when, "strategy": strategy, "shards": shards, **settings})
        for when, strategy in MEASURED
        for shards in shard_counts
    ]


def table_of(spreads: Sequence[Spread]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and lines of the table that the command prints."""
    by_point = {(spread.when, spread.strategy, spread.shards): spread.spread for spread in spreads}
    lines = [
        [str(s), *(f"{by_point[when, name, s]:.1%}" if (when, name, s) in by_point else "–" for when, name in MEASURED)]
        for s in sorted({spread.shards for spread in spreads})
    ]
    return ["shards", *(f"{name}, {when}" for when, name in MEASURED)], lines


def panels_of(spreads: Sequence[Spread]) -> list[Panel]:
    """Return the plot: a line for each strategy over the number of shards."""
    lines = []
    for when, strategy in MEASURED:
        own = [spread for spread in spreads if (spread.when, spread.strategy) == (when, strategy)]
        heights = [100 * spread.spread.value for spread in own]
        errors = [100 * (spread.spread.half_width or 0.0) for spread in own]
        lines.append(Series(f"{strategy}, {when}", [spread.shards for spread in own], heights, errors))
    return [Panel("", "shards", "spread of shard sizes, % of the mean", lines)]


def cells(size: Size) -> list[Cell]:
    """Return the runs: 2 to 16 shards, 100 users."""
    return balance_cells(SHARDS, USERS, size.seeds)


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise how even the strategies are at the fewest and the most shards."""
    runs = largest(of_kind(done, "spread"))
    spreads = [Spread.of(run) for run in runs]
    columns, lines = table_of(spreads)
    shards = sorted({spread.shards for spread in spreads})
    size = f"drawn, {min(run['seeds'] for run in runs)} seeds, {max(run['users'] for run in runs)} users"
    claims = [
        Claim(
            f"spread of the shard sizes at S = {spread.shards}, {spread.strategy}, {spread.when}",
            "even shards", percent(spread.spread.value), size, "(largest − smallest) / mean of the samples in a shard.",
        )
        for spread in spreads
        if spread.shards in (shards[0], shards[-1])
    ]  # fmt: skip
    return Summary(columns, lines, panels_of(spreads), claims)


FIGURE = Figure("balance", "How even the shards are", paper.BALANCE, cells, summarise)
