"""FiboR and other policies, with plenty of memory and with little."""

from collections.abc import Sequence

from cause.common.statistics import Mean
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, by, of_kind
from cause.lab.reproduce.figures.base import Figure, evenly, largest
from cause.lab.reproduce.readings import with_reading
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, mean_of, percent, thousands

POLICIES = ("fibor", "random", "fifo", "static", "cost", "unlimited")
SLOTS = (None, 16, 8)


def cells(size: Size) -> list[Cell]:
    """Return the runs: CAUSE with each policy, at 2 GB and at 16 and 8 slots."""
    return [size.counting(f"cause:policy={policy}", slots=slots) for policy in POLICIES for slots in SLOTS]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise RSN by policy and memory, and FiboR against random on pairs of the same seed."""
    counted = evenly(largest(of_kind(done, "count")))
    runs = {(_policy(key[0]), key[1]): group for key, group in by(counted, "system", "slots").items()}
    names = {slots: "2 GB (67 slots)" if slots is None else f"{slots} slots" for slots in SLOTS}
    policies = list(dict.fromkeys(policy for policy, _ in runs))
    rows = [
        [policy, *(thousands(mean_of(runs[policy, s], "rsn")) if (policy, s) in runs else "–" for s in SLOTS)]
        for policy in policies
    ]
    lines = []
    for policy in policies:
        means = [(names[s], mean_of(runs[policy, s], "rsn")) for s in SLOTS if (policy, s) in runs]
        lines.append(
            Series(policy, [n for n, _ in means], [m.value for _, m in means], [m.half_width or 0.0 for _, m in means])
        )
    reported = paper.POLICIES.values
    claims = [
        Claim(f"RSN with {policy} at 2 GB", thousands(stated), thousands(mean), counted_size(counted), "Mean ± 95 %.")
        .measured(mean.value, stated)
        for policy, stated in reported.items()
        if (policy, None) in runs and (mean := mean_of(runs[policy, None], "rsn"))
    ]  # fmt: skip
    for slots, name in names.items():
        if ("fibor", slots) in runs and ("random", slots) in runs:
            pairs = zip(_rsn(runs["random", slots]), _rsn(runs["fibor", slots]), strict=True)
            saved = Mean.of([1 - mine / other if other else 0.0 for other, mine in pairs])
            both = " against ".join(thousands(mean_of(runs[name, slots], "rsn").value) for name in ("fibor", "random"))
            less = "less" if saved.value >= 0 else "more"
            sentence = (
                "Memory does not bind there: every policy keeps everything." if slots is None else f"Mean RSN {both}."
            )
            claims.append(
                Claim(
                    f"FiboR retrains less than random, {name}",
                    f"{thousands(reported['fibor'])} against {thousands(reported['random'])} "
                    f"({percent(1 - reported['fibor'] / reported['random'])} less)",
                    f"{percent(abs(saved.value))} {less} ± {percent(saved.half_width)}",
                    counted_size(counted),
                    sentence,
                )
            )
    panel = Panel("CAUSE with other policies", "memory", "retrained samples", lines)
    note = f"Mean RSN ± half width of the 95 % confidence interval; {counted_size(counted)}. unlimited is the floor."
    return Summary(["policy", *names.values()], rows, [panel], claims, [note])


def _policy(system: str) -> str:
    return system.rpartition("=")[2]


def _rsn(done: Sequence[Done]) -> list[int]:
    return [rsn for run in done for rsn in run.result["rsn"]]


FIGURE = with_reading(Figure("policies", "FiboR and other policies", paper.POLICIES, cells, summarise))
