"""The shard controller's function."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.figures.base import Figure
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary

VARIANTS = ((0.5, 0.5), (0.25, 0.5), (1.0, 0.5), (0.5, 0.25), (0.5, 1.0))
"""Pairs of p and γ; the paper's is the first."""


def cells(size: Size) -> list[Cell]:
    """Return the runs: S_t over ten rounds."""
    return [
        Cell("control", {"shards": shards, "p": p, "gamma": gamma, "rounds": 10})
        for shards in (4, 16)
        for p, gamma in VARIANTS
    ]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise S_t by round."""
    rounds = list(range(1, 11))
    rows = [
        [f"S = {run['shards']}, p = {run['p']}, γ = {run['gamma']}", *map(str, run.result["active"])] for run in done
    ]
    lines = [Series(row[0], rounds, [float(n) for n in row[1:]]) for row in rows]
    panels = [
        Panel(f"S = {shards}", "round", "shards that take data", own)
        for shards in (4, 16)
        if (own := [line for line in lines if line.name.startswith(f"S = {shards},")])
    ]
    claims = [
        Claim(
            f"S_t at S = {run['shards']}, p = γ = 0.5",
            f"from {run['shards']} towards {run['gamma'] * run['shards']:g}",
            " ".join(map(str, run.result["active"])),
            "computed",
            "The formula rounded to whole shards, at t = 1 to 10.",
        )
        for run in done
        if run["p"] == run["gamma"] == 0.5
    ]
    return Summary(["", *(f"t = {t}" for t in rounds)], rows, panels, claims)


FIGURE = Figure("sc-function", "The shard control function", paper.SC_FUNCTION, cells, summarise)
