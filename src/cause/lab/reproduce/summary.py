"""Summaries of finished runs: a table, plots, and the paper's claims with our results. All of it can be JSON."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cause.common.statistics import Mean
from cause.lab.reproduce.cell import Done
from cause.lab.reproduce.recipes import RECIPES

UNKNOWN = "–"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, its number, ours, the size of our runs, and a sentence."""

    claim: str
    paper: str
    ours: str
    size: str
    sentence: str = ""
    reading: str = ""
    """Our result in the paper's reading of its workload and systems; empty where there is one reading only."""
    value: float | None = None
    """Our result as a number, where the paper has one."""
    target: float | None = None
    """The paper's number."""

    def measured(self, value: float, target: float | None) -> "Claim":
        """Return the claim with our result and the paper's as numbers."""
        return replace(self, value=value, target=target)


@dataclass(frozen=True)
class Series:
    """The points of one line in a plot; those of the paper are drawn differently."""

    name: str
    x: list[Any]
    y: list[float]
    error: list[float] | None = None
    paper: bool = False


@dataclass(frozen=True)
class Panel:
    """One part of a plot."""

    title: str
    xlabel: str
    ylabel: str
    series: list[Series]
    log: bool = False
    bars: bool = False
    """Draw bars: the points are different things, with nothing in between."""
    to_scale: bool = False
    """Place points by their numbers, not side by side: for a line that should be straight."""


@dataclass(frozen=True)
class Summary:
    """A table, plots and claims."""

    columns: list[str]
    rows: list[list[str]]
    panels: list[Panel]
    claims: list[Claim]
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return asdict(self)


def panels_of(panels: Sequence[dict[str, Any]]) -> list[Panel]:
    """Return the panels that JSON describes."""
    return [Panel(**{**panel, "series": [Series(**line) for line in panel["series"]]}) for panel in panels]


def mean_of(done: Sequence[Done], name: str) -> Mean:
    """Return the mean of a result over all runs and over the seeds in each."""
    results = [run.result[name] for run in done]
    return Mean.of([value for run in results for value in (run if isinstance(run, list) else [run])])


def trained_size(done: Sequence[Done]) -> str:
    """Return how large trainings were: share of the samples, epochs, rounds, seeds, recipe.

    >>> from cause.lab.reproduce.cell import Cell
    >>> trained_size([Done(Cell("train", {"share": 0.2, "epochs": 20, "rounds": 10, "device": "cpu"}), {}, 0.0, {})])
    '20 % of the samples, 20 epochs, 10 rounds, 1 seed, cpu'
    """
    if not done:
        return "not run"
    parts = [
        f"{_listed(done, 'share', lambda s: f'{s * 100:g} %')} of the samples",
        _counted(_listed(done, "epochs"), "epoch"),
    ]
    if "rounds" in done[0].cell.settings:
        parts.append(_counted(_listed(done, "rounds"), "round"))
    if "users" in done[0].cell.settings:
        parts.append(_counted(_listed(done, "users"), "user"))
    parts.append(_counted(_seeds(done), "seed"))
    if any(run.cell.settings.get("recipe", "paper") != "paper" for run in done):
        parts.append(f"recipe {_listed(done, 'recipe', _with_warning)}")
    devices = _listed(done, "device")
    return ", ".join([*parts, devices] if devices else parts)


def _with_warning(recipe: str) -> str:
    warning = RECIPES[recipe].warning
    return f"{recipe} ({warning})" if warning else recipe


def counted_size(done: Sequence[Done]) -> str:
    """Return how large simulations were."""
    if not done:
        return "not run"
    return f"simulated, {_listed(done, 'seeds')} seeds, {_listed(done, 'samples', lambda n: f'{n:,}')} samples"


def _seeds(done: Sequence[Done]) -> str:
    """Return the number of seeds of each run; all different numbers where they differ."""
    same = Counter(
        json.dumps({name: value for name, value in run.cell.settings.items() if name != "seed"}, sort_keys=True)
        for run in done
    )
    return " and ".join(map(str, sorted(set(same.values()))))


def _counted(number: str, what: str) -> str:
    return f"{number} {what}" if number == "1" else f"{number} {what}s"


def _listed(done: Sequence[Done], name: str, form: Any = str) -> str:
    values = sorted({run.cell.settings[name] for run in done if name in run.cell.settings})
    return " and ".join(map(form, values))


def ratio(part: float, whole: float) -> float | None:
    """Return a share; None if the whole is 0.

    >>> ratio(1, 4), print(ratio(1, 0))
    None
    (0.25, None)
    """
    return part / whole if whole else None


def percent(value: float | None, digits: int = 1) -> str:
    """Format a share as a percentage.

    >>> percent(0.8075), percent(None)
    ('80.8 %', '–')
    """
    return UNKNOWN if value is None else f"{100 * value:.{digits}f} %"


def accuracy(value: float | Mean | None) -> str:
    """Format an accuracy with three digits."""
    return UNKNOWN if value is None else f"{value:.3f}"


def thousands(value: float | Mean | None) -> str:
    """Format a count with thousands separators."""
    return UNKNOWN if value is None else f"{value:,.0f}"
