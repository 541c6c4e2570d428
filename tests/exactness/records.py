"""Results of set-ups as lines of JSON: a run that was killed continues where its file ends."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import sklearn
import torch

import cause
from tests.exactness.dimensions import DIMENSIONS, Case

Record = dict[str, Any]
"""set_up, seconds, cases, counts (by dimension and value) and wrong: what JSON can hold."""


@dataclass(frozen=True)
class Outcome:
    """A case, and what was wrong in it: nothing, as a rule."""

    case: Case
    wrong: tuple[str, ...]


def record(set_up: Case, seconds: float, outcomes: Sequence[Outcome]) -> Record:
    """A set-up's line."""
    counts = {name: Counter(str(getattr(each.case, name)) for each in outcomes) for name in DIMENSIONS}
    wrong = [{"case": asdict(each.case), "wrong": list(each.wrong)} for each in outcomes if each.wrong]
    return {"set_up": str(set_up), "seconds": seconds, "cases": len(outcomes), "counts": counts, "wrong": wrong}


def version() -> str:
    """Changes with everything a comparison's outcome depends on: our code, the cover's, and the libraries."""
    digest = hashlib.sha256(f"{torch.__version__} {sklearn.__version__} {numpy.__version__}".encode())
    for folder in (Path(cause.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


class Records:
    """The finished set-ups of a run, in a file if one is given.

    A last line that was cut off is dropped. A file of other code is refused: its outcomes say nothing of this one's.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.finished: list[Record] = []
        if path is None:
            return
        whole, _, _ = (path.read_bytes() if path.exists() else b"").rpartition(b"\n")
        lines = [json.loads(line) for line in whole.splitlines()]
        if lines and lines[0] != {"version": version()}:
            raise ValueError(f"{path} is of other code or libraries than these: remove it, or name another file")
        self.finished = lines[1:]
        path.write_bytes(whole + b"\n" if lines else json.dumps({"version": version()}).encode() + b"\n")

    def add(self, finished: Sequence[Record]) -> None:
        """Remember them, and write them down at once."""
        self.finished += finished
        if self._path is not None:
            with self._path.open("a") as file:
                file.writelines(json.dumps(each) + "\n" for each in finished)


def finished_in(path: Path) -> set[str]:
    """The set-ups that a file names as finished, whatever code and libraries it is of."""
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return {json.loads(line)["set_up"] for line in whole.splitlines()[1:]}
