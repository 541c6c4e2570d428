"""Where finished runs are kept: one file each, so that a run that was stopped goes on where it was."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cause.evaluation.reproduce.cell import Cell, Done
from cause.files import write_text

CELLS = "cells"


class Archive:
    """The runs in a folder: `cells/*.json`, and those inside its result files.

    Results are enough to go on from: the single files may be deleted, or not be brought along.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found = {done.cell.key: done for done in self._read()}

    def __contains__(self, cell: Cell) -> bool:
        return cell.key in self._found

    def __getitem__(self, cell: Cell) -> Done:
        return self._found[cell.key]

    def add(self, done: Done) -> None:
        """Keep a finished run, whole or not at all."""
        told = json.dumps(done.as_dict(), indent=1, ensure_ascii=False)
        write_text(self.folder / CELLS / f"{done.cell.kind}-{done.cell.key}.json", told + "\n")
        self._found[done.cell.key] = done

    def of_result(self, name: str) -> list[Done]:
        """The runs that a result was made from."""
        return list(_of_result(_load(self.folder / f"{name}.json")))

    def _read(self) -> Iterator[Done]:
        for path in sorted(self.folder.glob("*.json")):
            yield from _of_result(_load(path))
        for path in sorted((self.folder / CELLS).glob("*.json")):
            told = _load(path)
            if {"kind", "settings", "seconds", "result", "source"} <= told.keys():
                yield Done.from_dict(told)


def _load(path: Path) -> dict[str, Any]:
    """A file's object; nothing where it is missing or damaged: that run is then made again."""
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _of_result(told: dict[str, Any]) -> Iterator[Done]:
    result = told.get("result")
    if isinstance(result, dict) and {"cells", "sources"} <= result.keys():
        for each in result["cells"]:
            yield Done.from_dict({**each, "source": result["sources"][each["source"]]})
