"""RSN against the number of shards."""

from collections.abc import Sequence
from dataclasses import replace

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, evenly, largest, over_shards
from cause.lab.reproduce.figures.sweeps import rsn_of, swept, table_of
from cause.lab.reproduce.readings import with_reading
from cause.lab.reproduce.size import SHARDS, SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Series, Summary, counted_size, percent


def cells(size: Size) -> list[Cell]:
    """Return the runs: from 1 to 16 shards."""
    return swept(size, "shards", SHARDS)


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise how RSN changes from the fewest shards to the most."""
    counted = largest(of_kind(done, "count"))
    even = evenly(counted)
    table, rsn = table_of(counted, "shards", "S"), rsn_of(even, "shards")
    claims = []
    for system in SYSTEMS:
        points = sorted(shards for name, shards in rsn if name == system)
        if len(points) > 1:
            change = rsn[system, points[-1]].value / rsn[system, points[0]].value - 1
            claimed = f"−{percent(paper.RSN_SHARDS.values['fall'], 2)}" if system == "cause" else "grows"
            claimed = over_shards(claimed, points[0], points[-1])
            claims.append(
                Claim(
                    f"change of {system}'s RSN from S = {points[0]} to {points[-1]}",
                    claimed,
                    f"{'+' if change > 0 else '−'}{percent(abs(change))}",
                    counted_size(even),
                    _why(system),
                )
            )
    reported = paper.RSN_SHARDS.values["cause"]
    theirs = Series("cause", [int(s) for s in reported], [float(n) for n in reported.values()], paper=True)
    panels = [replace(panel, series=[*panel.series, theirs]) for panel in table.panels]
    return replace(table, panels=panels, claims=claims)


def _why(system: str) -> str:
    if system == "cause":
        return "A request replays one shard, and more shards are smaller ones."
    return "A request touches more shards, but each is smaller."


FIGURE = with_reading(Figure("rsn-shards", "RSN against the number of shards", paper.RSN_SHARDS, cells, summarise))
