"""Energy and time of real forgetting, measured."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, by, of_kind
from cause.lab.reproduce.figures.base import Figure, Group, groups, machine_of
from cause.lab.reproduce.size import SYSTEMS, Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, mean_of, percent

SHARE, EPOCHS, ROUNDS, USERS = 0.1, 3, 3, 20
"""Of a full or reduced run: forgetting for real is dear, so this is always small, and says so."""


def cells(size: Size) -> list[Cell]:
    """S = 16 and ρ = 0.3, as in the paper's figure on energy."""
    ((dataset, backbone),) = size.sets(("cifar10", "resnet34"))
    share = size.part(dataset) if size.name == "quick" else min(size.share, SHARE)
    small = {"shards": 16, "rho": 0.3, "share": share, "epochs": min(size.epochs, EPOCHS)}
    small |= {"rounds": min(size.rounds, ROUNDS), "users": min(size.users, USERS)}
    return [cell for system in SYSTEMS for cell in size.training(dataset, backbone, system, **small)]


def summarise(done: Sequence[Done]) -> Summary:
    """Joules and seconds of all requests, and for each retrained sample."""
    found = [group for own in _by_machine(of_kind(done, "train")) for group in groups(own)]
    rows = [_row(group, system, own) for group in found for (system,), own in by(group.done, "system").items()]
    reasons = [each.result["energy"]["unavailable"] for group in found for each in group.done if each.result["rsn"]]
    notes = [f"Energy is unknown: {reason}." for reason in dict.fromkeys(reasons) if reason]
    notes += [_workers(group) for group in found if len(_at_once(group)) > 1]
    columns = ["", "size", "requests", "RSN", "as simulated", "seconds", "joules above idle", "J a retrained sample"]
    panels, claims = [], []
    for group in found:
        unit, shown = _measured(group)
        line = Series("measured", list(shown), list(shown.values()))
        shown_unit = f"{unit} above idle" if unit == "joules" else unit
        panels.append(Panel(f"{group.name}, S = 16, ρ = 0.3", "system", shown_unit, [line], bars=True))
        for other, share in paper.ENERGY_SHARDS.values["share"].items():
            if "cause" in shown and shown.get(other):
                what = f"CAUSE's {unit} of forgetting as a share of {other}'s, S = 16, ρ = 0.3"
                sentence = f"{shown['cause']:,.1f} against {shown[other]:,.1f}."
                told = percent(shown["cause"] / shown[other])
                claims.append(Claim(what, percent(share), told, f"measured, {group.size}", sentence))
    return Summary(columns, rows, panels, claims, notes)


def _by_machine(done: Sequence[Done]) -> list[list[Done]]:
    found: dict[str, list[Done]] = {}
    for each in done:
        found.setdefault(machine_of(each), []).append(each)
    return list(found.values())


def _at_once(group: Group) -> dict[int, list[str]]:
    """The systems by the number of shards that were trained at once: it changes seconds, and what idles meanwhile."""
    found: dict[int, list[str]] = {}
    for each in group.done:
        systems = found.setdefault(each.result.get("workers", 1), [])
        systems += [] if each["system"] in systems else [each["system"]]
    return dict(sorted(found.items()))


def _workers(group: Group) -> str:
    told = "; ".join(f"{number} for {', '.join(systems)}" for number, systems in _at_once(group).items())
    return f"Shards trained at once differ ({told}): these seconds do not compare, and joules only roughly."


def _row(group: Group, system: str, done: Sequence[Done]) -> list[str]:
    joules, rsn = _joules(done), mean_of(done, "rsn").value
    same = all(each.result["rsn"] == each.result["simulated_rsn"] for each in done)
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
    """The mean; unknown when it is for a single run."""
    found = [each.result["energy"]["joules"] for each in done]
    return None if None in found else sum(found) / len(found)


def _measured(group: Group) -> tuple[str, dict[str, float]]:
    """Joules of every system, or seconds when they are unknown for one."""
    systems = {key[0]: own for key, own in by(group.done, "system").items()}
    joules = {system: _joules(own) for system, own in systems.items()}
    known = {system: value for system, value in joules.items() if value is not None}
    if len(known) == len(joules):
        return "joules", known
    return "seconds", {system: mean_of(own, "forget_s").value for system, own in systems.items()}


FIGURE = Figure("forgetting", "Energy of real forgetting", paper.ENERGY_SHARDS, cells, summarise)
