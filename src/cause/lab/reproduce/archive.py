"""The files of finished runs, one each: a reproduction that was stopped continues from them."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cause.common.files import write_text
from cause.errors import InputError
from cause.lab.reproduce.cell import UNMARKED, Cell, Done

CELLS = "cells"
_PARTS = {"kind": str, "settings": dict, "seconds": int | float, "result": dict, "source": dict}


class Archive:
    """The runs in a folder: `cells/*.json`, and those inside its result files.

    Results are enough to go on from: the single files may be deleted, or not be brought along.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = {done.cell.key: done for done in self._read()}

    def __contains__(self, cell: Cell) -> bool:
        return cell.key in self._runs

    def __getitem__(self, cell: Cell) -> Done:
        return self._runs[cell.key]

    def add(self, done: Done) -> None:
        """Write a finished run to its file. If it fails, no part of the file is left."""
        text = json.dumps(done.as_dict(), indent=1, ensure_ascii=False)
        write_text(self.folder / CELLS / f"{done.cell.kind}-{done.cell.key}.json", text + "\n")
        self._runs[done.cell.key] = done

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder, so that no other process changes a result while it is read and written again."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.folder, os.O_RDONLY)
        except OSError as error:
            raise InputError(f"cannot write {str(self.folder)!r}: {error.strerror}") from None
        try:
            with suppress(OSError):  # a file system without locks: calls that end in the same moment must not share it
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def of_result(self, name: str) -> list[Done]:
        """Return the runs of a result file."""
        return list(_of_result(load(self.folder / f"{name}.json")))

    def _read(self) -> Iterator[Done]:
        for path in sorted(self.folder.glob("*.json")):
            yield from _of_result(load(path))
        for path in sorted((self.folder / CELLS).glob("*.json")):
            yield from _run(load(path))


def load(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if it is missing or damaged: its runs are then made again."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _of_result(record: dict[str, Any]) -> Iterator[Done]:
    result = record.get("result")
    if not isinstance(result, dict):
        return
    cells, sources = (items if isinstance(items := result.get(name), list) else [] for name in ("cells", "sources"))
    for cell in cells:
        if isinstance(cell, dict) and cell.get("source") in range(len(sources)):
            yield from _run({**cell, "source": sources[cell["source"]]})


def _run(record: dict[str, Any]) -> Iterator[Done]:
    """Yield the run of a record, if it is one of the current format."""
    if not all(isinstance(record.get(name), kind) for name, kind in _PARTS.items()):
        return
    done = Done.from_dict(record)
    if record.get("format", UNMARKED) == done.cell.format:
        yield done
