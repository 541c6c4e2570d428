"""Energy and time of real forgetting, measured."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, by, of_kind
from cause.lab.reproduce.figures.base import Figure, Group, groups, machine_of
from cause.lab.reproduce.size import SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, mean_of, percent

SHARE, EPOCHS, ROUNDS, USERS = 0.1, 3, 3, 20
"""The size in full and reduced runs: real forgetting takes long, so it is always small."""


def cells(size: Size) -> list[Cell]:
    """Return the runs: S = 16 and ρ = 0.3, as in the paper's figure on energy."""
    ((dataset, backbone),) = size.sets(("cifar10", "resnet34"))
    share = size.part(dataset) if size.name == "quick" else min(size.share, SHARE)
    small = {"shards": 16, "rho": 0.3, "scope": "part", "share": share, "epochs": min(size.epochs, EPOCHS)}
    small |= {"rounds": min(size.rounds, ROUNDS), "users": min(size.users, USERS)}
    return [cell for system in SYSTEMS for cell in size.training(dataset, backbone, system, **small)]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise joules and seconds of all requests, and of each retrained sample."""
    comparable = [group for runs in _by_machine(of_kind(done, "train")) for group in groups(runs)]
    rows = [_row(group, system, runs) for group in comparable for (system,), runs in by(group.done, "system").items()]
    reasons = [run.result["energy"]["unavailable"] for group in comparable for run in group.done if run.result["rsn"]]
    notes = [f"Energy is unknown: {reason}." for reason in dict.fromkeys(reasons) if reason]
    notes += [_workers(group) for group in comparable if len(_at_once(group)) > 1]
    columns = ["", "size", "requests", "RSN", "as simulated", "seconds", "joules above idle", "J a retrained sample"]
    panels, claims = [], []
    for group in comparable:
        unit, shown = _measured(group)
        line = Series("measured", list(shown), list(shown.values()))
        shown_unit = f"{unit} above idle" if unit == "joules" else unit
        panels.append(Panel(f"{group.name}, S = 16, ρ = 0.3", "system", shown_unit, [line], bars=True))
        for other, share in paper.ENERGY_SHARDS.values["share"].items():
            if "cause" in shown and shown.get(other):
                what = f"CAUSE's {unit} of forgetting as a share of {other}'s, S = 16, ρ = 0.3"
                sentence = f"{shown['cause']:,.1f} against {shown[other]:,.1f}."
                ours = percent(shown["cause"] / shown[other])
                claims.append(Claim(what, percent(share), ours, f"measured, {group.size}", sentence))
    return Summary(columns, rows, panels, claims, notes)


def _by_machine(done: Sequence[Done]) -> list[list[Done]]:
    by_machine: dict[str, list[Done]] = {}
    for run in done:
        by_machine.setdefault(machine_of(run), []).append(run)
    return list(by_machine.values())


def _at_once(group: Group) -> dict[int, list[str]]:
    """Return the systems by the number of shards trained at once, which changes seconds and idle energy."""
    systems_by_workers: dict[int, list[str]] = {}
    for run in group.done:
        systems = systems_by_workers.setdefault(run.result.get("workers", 1), [])
        systems += [] if run["system"] in systems else [run["system"]]
    return dict(sorted(systems_by_workers.items()))


def _workers(group: Group) -> str:
    workers = "; ".join(f"{number} for {', '.join(systems)}" for number, systems in _at_once(group).items())
    return f"Shards trained at once differ ({workers}): these seconds do not compare, and joules only roughly."


def _row(group: Group, system: str, done: Sequence[Done]) -> list[str]:
    joules, rsn = _joules(done), mean_of(done, "rsn").value
    same = all(run.result["rsn"] == run.result["simulated_rsn"] for run in done)
    return [
        f"{group.name}, {system}",
        group.size,
        f"{mean_of(done, 'requests').value:,.0f}",
        f"{rsn:,.0f}",
        "yes" if same else "no",
        f"{mean_of(done, 'forget_s').value:,.1f}",
        "unknown" if joules is None else f"{joules:,.1f}",
        "unknown" if joules is None or not rsn else f"{joules / rsn:.3g}",
    ]


def _joules(done: Sequence[Done]) -> float | None:
    """Return the mean of joules; None if they are unknown for a run."""
    values = [run.result["energy"]["joules"] for run in done]
    return None if None in values else sum(values) / len(values)


def _measured(group: Group) -> tuple[str, dict[str, float]]:
    """Return the joules of every system, or the seconds if the joules of one are unknown."""
    systems = {key[0]: runs for key, runs in by(group.done, "system").items()}
    joules = {system: _joules(runs) for system, runs in systems.items()}
    measured = {system: value for system, value in joules.items() if value is not None}
    if len(measured) == len(joules):
        return "joules", measured
    return "seconds", {system: mean_of(runs, "forget_s").value for system, runs in systems.items()}


FIGURE = Figure("forgetting", "Energy of real forgetting", paper.ENERGY_SHARDS, cells, summarise)
