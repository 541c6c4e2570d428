"""Where two claims of the paper hold, over slots and ages: FiboR beats random, the shard controller lowers RSN."""

from collections.abc import Sequence

from cause.common.statistics import Mean
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, largest
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary

SHARDS = 4
SLOTS = tuple(range(6, 33))
AGES = ("current", "recent:0.2", "recent:0.5", "recent:0.8", "uniform")
FIXED, CONTROLLED, IN_TURN = "cause-no-sc", "cause", "cause:active=in-turn"
NAMES = {FIXED: "fixed shards", CONTROLLED: "with the controller", IN_TURN: "controller, shards in turn"}
POLICIES = {FIXED: ("fibor", "random", "fifo"), CONTROLLED: ("fibor", "random", "fifo"), IN_TURN: ("fibor",)}

Pair = tuple[tuple[str, str], tuple[str, str]]
"""Two pairs of system and policy whose RSN is compared."""
Values = dict[tuple[str, str, str, int], list[int]]
"""RSN by seed, by system, ages, policy and slots."""


def cells(size: Size) -> list[Cell]:
    """Return the runs: three systems at each distribution of ages; each tries all slots on the same workloads."""
    drawn = {"users": 100, "rounds": 10, "samples": size.workload, "rho": 0.1, "labels": "dirichlet"}
    return [
        Cell(
            "map",
            {
                "system": system, "shards": SHARDS, "ages": ages, "policies": ",".join(policies),
                "slots": ",".join(map(str, SLOTS)),
                **drawn, "seeds": size.seeds,
            },
        )
        for system, policies in POLICIES.items()
        for ages in AGES
    ]  # fmt: skip


def fibor_summary(done: Sequence[Done]) -> Summary:
    """Summarise FiboR's RSN as a share of that of random replacement and of FIFO."""
    compared = {
        f"FiboR / {other}, {NAMES[system]}": ((system, "fibor"), (system, other))
        for system in (FIXED, CONTROLLED)
        for other in ("random", "fifo")
    }
    theirs = paper.POLICIES.values
    stated = {name: f"{theirs['fibor'] / theirs['random']:.3f}" for name in compared if "random" in name}
    return _map(compared, done, stated, "FiboR retrains less")


def controller_summary(done: Sequence[Done]) -> Summary:
    """Summarise the RSN with the controller as a share of that without, on the same workloads."""
    compared = {
        f"SC / fixed shards, {NAMES[system]}": ((system, "fibor"), (FIXED, "fibor")) for system in (CONTROLLED, IN_TURN)
    }
    table = paper.CONTROLLER.values["rsn"]
    stated = f"{table['cause'][str(SHARDS)] / table['cause-no-sc'][str(SHARDS)]:.3f}"
    return _map(compared, done, dict.fromkeys(compared, stated), "the controller lowers RSN")


def _values(done: Sequence[Done]) -> Values:
    return {
        (run["system"], run["ages"], policy, int(slots)): by_seed
        for run in largest(of_kind(done, "map"))
        for policy, by_slots in run.result["rsn"].items()
        for slots, by_seed in by_slots.items()
    }


def _ratio(rsn: Values, pair: Pair, ages: str, slots: int) -> Mean | None:
    """Return the mean ratio over pairs of the same seed; None where one was not run or cost nothing."""
    one, other = (rsn.get((system, ages, policy, slots), []) for system, policy in pair)
    seeds = min(len(one), len(other))
    return Mean.of_ratios(one[:seeds], other[:seeds]) if any(other[:seeds]) else None


def _map(compared: dict[str, Pair], done: Sequence[Done], stated: dict[str, str], claim: str) -> Summary:
    rsn, runs = _values(done), largest(of_kind(done, "map"))
    size = f"simulated, {min(run['seeds'] for run in runs)} paired seeds, S = {SHARDS}"
    rows, panels, claims = [], [], []
    for name, pair in compared.items():
        lines = []
        for ages in AGES:
            at = {n: mean for n in SLOTS if (mean := _ratio(rsn, pair, ages, n)) is not None}
            if not at:
                continue
            rows.append([f"{name}, ages {ages}", *(f"{at[n]:.3f}" if n in at else "–" for n in SLOTS)])
            heights, errors = [mean.value for mean in at.values()], [mean.half_width or 0.0 for mean in at.values()]
            lines.append(Series(f"ages {ages}", list(at), heights, errors))
            claims.append(_claim(claim, f"{name}, ages {ages}", at, stated.get(name, "–"), size))
        if lines:
            panels.append(Panel(name, f"slots N (S = {SHARDS})", "ratio of RSN", lines))
    note = f"Mean of the ratios of the same seed ± half width of its 95 % confidence interval; {size}."
    return Summary(["", *(f"N = {n}" for n in SLOTS)], rows, panels, claims, [note])


def _claim(claim: str, name: str, at: dict[int, Mean], stated: str, size: str) -> Claim:
    """Return for how many numbers of slots a ratio is significantly below or above 1, and its range."""
    below = [n for n, mean in at.items() if mean.value + (mean.half_width or 0.0) < 1]
    above = [n for n, mean in at.items() if mean.value - (mean.half_width or 0.0) > 1]
    least, most = (pick(at, key=lambda n: at[n].value) for pick in (min, max))
    shown = f"holds at {len(below)} of {len(at)} N, the opposite at {len(above)}"
    sentence = f"From {at[least]:.3f} (N = {least}) to {at[most]:.3f} (N = {most}). Holds at N = {_spans(below)}."
    return Claim(f"{claim}: {name}", stated, shown, size, sentence)


def _spans(numbers: Sequence[int]) -> str:
    """Return ascending numbers with runs shortened.

    >>> _spans([6, 7, 8, 11]), _spans([])
    ('6–8, 11', 'none')
    """
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}" for span in spans) or "none"


FIBOR = Figure("map-fibor", "Where FiboR beats random replacement", paper.POLICIES, cells, fibor_summary)
CONTROLLER = Figure("map-controller", "Where the controller lowers RSN", paper.CONTROLLER, cells, controller_summary)
