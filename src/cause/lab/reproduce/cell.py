"""`Cell`, a run with its settings, and `Done`, a finished run with its result."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

FORMATS = {"count": 3}
"""Increased for a kind of run when its meaning changes: earlier runs are then made again.

count 3: a request for a part of a round takes a random part, not the first classes.
"""
FORMAT = 2
"""The format of all other kinds."""
UNMARKED = 2
"""The format of files without one: they were written before it was recorded."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A run to make: its kind, and all settings that decide its result. Cells with the same key are the same run.

    >>> one, other = Cell("count", {"system": "cause", "rho": 0.1}), Cell("count", {"system": "cause", "rho": 0.2})
    >>> one.key == other.key, one.key == Cell("count", {"rho": 0.1, "system": "cause"}).key
    (False, True)
    """

    kind: str
    settings: Mapping[str, Any]

    @property
    def format(self) -> int:
        """The current format of this kind of run."""
        return FORMATS.get(self.kind, FORMAT)

    @property
    def key(self) -> str:
        """A digest of the run, which names its file."""
        text = json.dumps([self.format, self.kind, self.settings], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:20]

    def __str__(self) -> str:
        shown = (
            "dataset",
            "backbone",
            "system",
            "pruning",
            "method",
            "rate",
            "shards",
            "slots",
            "memory",
            "rho",
            "ages",
        )
        values = [f"{name}={self.settings[name]}" for name in shown if self.settings.get(name) is not None]
        return " ".join([self.kind, *values])


@dataclass(frozen=True, eq=False)
class Done:
    """A finished run: its result, how long it took, and where it was made."""

    cell: Cell
    result: dict[str, Any]
    seconds: float
    source: dict[str, Any]
    """Command, commit, date and machine."""

    def __getitem__(self, name: str) -> Any:
        """Return a setting of the run."""
        return self.cell.settings[name]

    def as_dict(self) -> dict[str, Any]:
        """Return the run for JSON."""
        run = {"kind": self.cell.kind, "settings": dict(self.cell.settings)}
        outcome = {"seconds": round(self.seconds, 3), "result": self.result, "source": self.source}
        return {"format": self.cell.format, **run, **outcome}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Done":
        """Return the run that `as_dict` wrote."""
        return cls(Cell(fields["kind"], fields["settings"]), fields["result"], fields["seconds"], fields["source"])


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells without repetitions, in order."""
    return list({cell.key: cell for cell in cells}.values())


def of_kind(done: Iterable[Done], kind: str) -> list[Done]:
    """Return the finished runs of a kind."""
    return [run for run in done if run.cell.kind == kind]


def by(done: Iterable[Done], *names: str) -> dict[tuple[Any, ...], list[Done]]:
    """Group finished runs by the values of some settings, in their order."""
    groups: dict[tuple[Any, ...], list[Done]] = {}
    for run in done:
        groups.setdefault(tuple(run.cell.settings.get(name) for name in names), []).append(run)
    return groups


def values(done: Sequence[Done], name: str) -> list[Any]:
    """Return the different values of a setting, in order.

    >>> cells = [Cell("count", {"shards": shards}) for shards in (4, 1, 4)]
    >>> values([Done(cell, {}, 0.0, {}) for cell in cells], "shards")
    [4, 1]
    """
    return list(dict.fromkeys(run[name] for run in done))
