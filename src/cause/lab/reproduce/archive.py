"""Where finished runs are kept: one file each, so that a run that was stopped goes on where it was."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cause.common.files import write_text
from cause.errors import InputError
from cause.lab.reproduce.cell import FORMAT, UNMARKED, Cell, Done

CELLS = "cells"
_PARTS = {"kind": str, "settings": dict, "seconds": int | float, "result": dict, "source": dict}


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

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process changes a result meanwhile: it is read, added to, and written again."""
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
        """The runs that a result was made from."""
        return list(_of_result(load(self.folder / f"{name}.json")))

    def _read(self) -> Iterator[Done]:
        for path in sorted(self.folder.glob("*.json")):
            yield from _of_result(load(path))
        for path in sorted((self.folder / CELLS).glob("*.json")):
            yield from _run(load(path))


def load(path: Path) -> dict[str, Any]:
    """A file's object; nothing where it is missing or damaged: that run is then made again."""
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _of_result(told: dict[str, Any]) -> Iterator[Done]:
    result = told.get("result")
    if not isinstance(result, dict):
        return
    cells, sources = (found if isinstance(found := result.get(name), list) else [] for name in ("cells", "sources"))
    for each in cells:
        if isinstance(each, dict) and each.get("source") in range(len(sources)):
            yield from _run({**each, "source": sources[each["source"]]})


def _run(told: dict[str, Any]) -> Iterator[Done]:
    """The run that this is, if it is one, and of a kind that still means the same."""
    if told.get("format", UNMARKED) == FORMAT and all(isinstance(told.get(n), kind) for n, kind in _PARTS.items()):
        yield Done.from_dict(told)
