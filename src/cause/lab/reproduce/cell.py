"""One run with its settings, and what came of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

FORMAT = 2
"""Counted up when a kind of run comes to mean something else: what was run before is then run again."""
UNMARKED = 2
"""The format of runs that do not say theirs: they were kept before it was written down."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A run to make: its kind, and everything that decides its outcome. Two with the same key are the same run.

    >>> one, other = Cell("count", {"system": "cause", "rho": 0.1}), Cell("count", {"system": "cause", "rho": 0.2})
    >>> one.key == other.key, one.key == Cell("count", {"rho": 0.1, "system": "cause"}).key
    (False, True)
    """

    kind: str
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Names the run's file."""
        told = json.dumps([FORMAT, self.kind, self.settings], sort_keys=True)
        return sha256(told.encode()).hexdigest()[:20]

    def __str__(self) -> str:
        shown = ("dataset", "backbone", "system", "pruning", "method", "rate", "shards", "slots", "memory", "rho")
        values = [f"{name}={self.settings[name]}" for name in shown if self.settings.get(name) is not None]
        return " ".join([self.kind, *values])


@dataclass(frozen=True, eq=False)
class Done:
    """A finished run: what it gave, how long it took, and where it was made."""

    cell: Cell
    result: dict[str, Any]
    seconds: float
    source: dict[str, Any]
    """Command, commit, date and machine."""

    def __getitem__(self, name: str) -> Any:
        """A setting."""
        return self.cell.settings[name]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {"kind": self.cell.kind, "settings": dict(self.cell.settings)}
        made = {"seconds": round(self.seconds, 3), "result": self.result, "source": self.source}
        return {"format": FORMAT, **own, **made}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "Done":
        """From what `as_dict` gave."""
        return cls(Cell(told["kind"], told["settings"]), told["result"], told["seconds"], told["source"])


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """The cells without repetitions, in order."""
    return list({cell.key: cell for cell in cells}.values())


def of_kind(done: Iterable[Done], kind: str) -> list[Done]:
    """The finished runs of a kind."""
    return [each for each in done if each.cell.kind == kind]


def by(done: Iterable[Done], *names: str) -> dict[tuple[Any, ...], list[Done]]:
    """Finished runs by some of their settings, in the order in which they were made."""
    found: dict[tuple[Any, ...], list[Done]] = {}
    for each in done:
        found.setdefault(tuple(each.cell.settings.get(name) for name in names), []).append(each)
    return found


def values(done: Sequence[Done], name: str) -> list[Any]:
    """The values that a setting takes, each once, in order.

    >>> cells = [Cell("count", {"shards": shards}) for shards in (4, 1, 4)]
    >>> values([Done(cell, {}, 0.0, {}) for cell in cells], "shards")
    [4, 1]
    """
    return list(dict.fromkeys(each[name] for each in done))
