"""Every step of a home's journal: each write, each sync, each change of a name, each statement, each training.

A step has a moment before it and one after it, and a write one in its middle. `install` numbers the moments and calls
`moment(number, what)` at each; it changes the classes themselves, so it is for a process that will not live long.
"""

import functools
from collections.abc import Callable

from cause.device.disk import Disk, OpenFile
from cause.device.store.database import Database
from cause.learners.sklearn import SklearnLearner

DISK = ("make_folder", "create", "sync", "rename", "unlink", "sync_folder")


class Steps:
    """Counts moments."""

    def __init__(self, moment: Callable[[int, str], None]) -> None:
        self.count = 0
        self._moment = moment

    def tick(self, what: str) -> None:
        self.count += 1
        self._moment(self.count, what)


def install(steps: Steps) -> None:
    """Let every step count its moments."""
    for name in DISK:
        _wrap(Disk, name, steps)
    _wrap(SklearnLearner, "train", steps)
    _wrap(Database, "run", steps, lambda self, statement, *rest: not statement.startswith("SELECT"))
    _wrap(Database, "many", steps)
    write = OpenFile.write_at

    def write_at(self, offset, data):
        steps.tick(f"before writing {self.path.name}")
        half = len(data) // 2
        write(self, offset, data[:half])
        steps.tick(f"half-way through writing {self.path.name}")
        write(self, offset + half, data[half:])
        steps.tick(f"after writing {self.path.name}")

    OpenFile.write_at = write_at


def _wrap(cls, name, steps, counts=lambda *args: True):
    original = getattr(cls, name)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        if not counts(*args):
            return original(*args, **kwargs)
        steps.tick(f"before {name}")
        result = original(*args, **kwargs)
        steps.tick(f"after {name}")
        return result

    setattr(cls, name, wrapped)
