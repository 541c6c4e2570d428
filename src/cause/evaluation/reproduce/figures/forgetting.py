"""Energy and time of real forgetting, measured."""

from collections.abc import Sequence

from cause.evaluation.reproduce import paper
from cause.evaluation.reproduce.cell import Cell, Done, of_kind
from cause.evaluation.reproduce.figures.base import Figure, groups
from cause.evaluation.reproduce.size import SYSTEMS, Size
from cause.evaluation.reproduce.summary import Claim, Panel, Series, Summary, percent

SHARE, EPOCHS = 0.1, 3
"""Of a full or reduced run: forgetting for real is dear, so this is always small, and says so."""


def cells(size: Size) -> list[Cell]:
    """S = 16 and ρ = 0.3, as in the paper's figure on energy."""
    ((dataset, backbone),) = size.sets(("cifar10", "resnet34"))
    small = {"share": min(size.part(dataset), SHARE), "epochs": min(size.epochs, EPOCHS)}
    small["share"] = size.part(dataset) if size.name == "quick" else small["share"]
    return [
        cell for system in SYSTEMS for cell in size.training(dataset, backbone, system, shards=16, rho=0.3, **small)
    ]


def summarise(done: Sequence[Done]) -> Summary:
    """Joules and seconds of all requests, and for each retrained sample."""
    rows, panels, claims, notes = [], [], [], []
    for group in groups(of_kind(done, "train")):
        joules: dict[str, float | None] = {}
        seconds: dict[str, float] = {}
        for each in group.done:
            system, result = each["system"], each.result
            energy, rsn = result["energy"], result["rsn"]
            joules[system], seconds[system] = energy["joules"], result["forget_s"]
            known = energy["joules"] is not None and rsn
            counted = f"{rsn:,}" + (
                "" if rsn == result["simulated_rsn"] else f" (simulated {result['simulated_rsn']:,})"
            )
            rows.append(
                [
                    f"{group.name}, {system}",
                    group.size,
                    f"{result['requests']:,}",
                    counted,
                    f"{result['forget_s']:.1f}",
                    f"{energy['joules']:,.1f}" if energy["joules"] is not None else "unknown",
                    f"{energy['joules'] / rsn:.3g}" if known else "–",
                ]
            )
            if energy["unavailable"] and rsn:
                notes.append(f"Energy is unknown: {energy['unavailable']}.")
        measured = {s: j for s, j in joules.items() if j is not None}
        whole = len(measured) == len(joules)
        shown, unit = (measured, "joules above idle") if whole else (seconds, "seconds")
        panels.append(Panel(group.name, "system", unit, [Series("measured", list(shown), list(shown.values()))]))
        for other, share in paper.ENERGY_SHARDS.values["share"].items():
            if "cause" in shown and shown.get(other):
                what = "energy" if whole else "time"
                told = percent(shown["cause"] / shown[other])
                sentence = f"{shown['cause']:,.1f} against {shown[other]:,.1f} {unit}."
                claim = f"CAUSE's {what} of forgetting as a share of {other}'s, S = 16, ρ = 0.3"
                claims.append(Claim(claim, percent(share), told, f"measured, {group.size}", sentence))
    columns = ["", "size", "requests", "RSN", "seconds", "joules above idle", "J a retrained sample"]
    return Summary(columns, rows, panels, claims, list(dict.fromkeys(notes)))


FIGURE = Figure("forgetting", "Energy of real forgetting", paper.ENERGY_SHARDS, cells, summarise)
