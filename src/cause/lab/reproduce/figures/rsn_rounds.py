"""RSN up to each round: the paper's Figure 11 adds up."""

from collections.abc import Sequence
from itertools import accumulate

from cause.common.statistics import Mean
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, evenly, largest
from cause.lab.reproduce.figures.sweeps import OURS
from cause.lab.reproduce.readings import ONE_ASKS, with_reading
from cause.lab.reproduce.size import SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, percent, ratio, thousands


def cells(size: Size) -> list[Cell]:
    """Return the runs: every system at the defaults."""
    return [size.counting(system) for system in (*SYSTEMS, OURS)]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise the RSN up to each round, and CAUSE's after the last as a share of the others'."""
    counted = evenly(largest(of_kind(done, "count")))
    by_system = {
        run["system"]: [Mean.of(column) for column in zip(*map(accumulate, run.result["rsn_per_round"]), strict=True)]
        for run in counted
    }
    rounds = list(range(1, 1 + max((len(means) for means in by_system.values()), default=0)))
    rows = [[system, *(thousands(mean) for mean in means)] for system, means in by_system.items()]
    lines = [
        Series(system, rounds, [m.value for m in means], [m.half_width or 0.0 for m in means])
        for system, means in by_system.items()
    ]
    size = counted_size(counted)
    claims = [*_sizes(by_system, size), *_shares(by_system, size)]
    note = f"Mean RSN up to the round ± half width of the 95 % confidence interval; {size}."
    panel = Panel("", "round", "retrained samples up to the round", lines, log=True)
    return Summary(["system", *(f"t = {t}" for t in rounds)], rows, [panel], claims, [note])


def _sizes(by_system: dict[str, list[Mean]], size: str) -> list[Claim]:
    reported = paper.ROUNDS.values
    claims = []
    if "cause" in by_system:
        first = by_system["cause"][0]
        sentence = "What one round's requests cost."
        target = float(reported["first"])
        claims.append(
            Claim("CAUSE's RSN in the first round", thousands(target), thousands(first), size, sentence)
            .measured(first.value, target)
        )  # fmt: skip
    for system, target in reported["last"].items():
        if system in by_system:
            last = by_system[system][-1]
            sentence = "Added up over the rounds."
            claims.append(
                Claim(f"{system}'s RSN after the last round", thousands(target), thousands(last), size, sentence)
                .measured(last.value, target)
            )  # fmt: skip
    return claims


def _shares(by_system: dict[str, list[Mean]], size: str) -> list[Claim]:
    claims = []
    for other, share in paper.ROUNDS.values["share"].items():
        if {"cause", other} <= by_system.keys():
            ours = ratio(by_system["cause"][-1].value, by_system[other][-1].value)
            what = f"CAUSE's RSN after the last round as a share of {other}'s"
            claims.append(Claim(what, percent(share), percent(ours), size, "Of the sums."))
    return claims


FIGURE = with_reading(Figure("rsn-rounds", "RSN over the rounds", paper.ROUNDS, cells, summarise), ONE_ASKS)
