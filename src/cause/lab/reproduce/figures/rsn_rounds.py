"""RSN over the rounds."""

from collections.abc import Sequence

from cause.common.statistics import Mean
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, evenly, largest
from cause.lab.reproduce.figures.sweeps import OURS
from cause.lab.reproduce.size import SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, percent, ratio, thousands


def cells(size: Size) -> list[Cell]:
    """Return the runs: every system at the defaults."""
    return [size.counting(system) for system in (*SYSTEMS, OURS)]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise the RSN of each round, and CAUSE's in the last round as a share of the others'."""
    counted = evenly(largest(of_kind(done, "count")))
    by_system = {
        run["system"]: [Mean.of(column) for column in zip(*run.result["rsn_per_round"], strict=True)] for run in counted
    }
    rounds = list(range(1, 1 + max((len(means) for means in by_system.values()), default=0)))
    rows = [[system, *(thousands(mean.value) for mean in means)] for system, means in by_system.items()]
    lines = [
        Series(system, rounds, [m.value for m in means], [m.half_width or 0.0 for m in means])
        for system, means in by_system.items()
    ]
    claims, size, reported = [], counted_size(counted), paper.ROUNDS.values
    if "cause" in by_system:
        first, last = by_system["cause"][0].value, by_system["cause"][-1].value
        claims.append(
            Claim(
                "CAUSE's RSN in the first and the last round",
                f"{thousands(reported['first'])} → {thousands(reported['last'])}",
                f"{thousands(first)} → {thousands(last)}",
                size,
                "The paper's workload is underspecified: ratios are what can be compared.",
            )
        )
        for other, share in reported["share"].items():
            if other in by_system:
                ours = ratio(last, by_system[other][-1].value)
                sentence = f"{thousands(last)} against {thousands(by_system[other][-1].value)} samples."
                claims.append(
                    Claim(f"CAUSE's last round as a share of {other}'s", percent(share), percent(ours), size, sentence)
                )
    note = f"Mean RSN of the round; {size}."
    panel = Panel("", "round", "retrained samples in the round", lines, log=True)
    return Summary(["system", *(f"t = {t}" for t in rounds)], rows, [panel], claims, [note])


FIGURE = Figure("rsn-rounds", "RSN over the rounds", paper.ROUNDS, cells, summarise)
