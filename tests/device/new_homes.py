"""Homes that hold nothing yet, made once: a test gets a copy, which takes a third of the time of making one.

Only `make test` and `make test-long` make them, before their processes are forked, so no test can spoil them. With
plain `pytest` every test makes its own, and so does a test that records what is written, or has other settings.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cause.device import attach
from cause.device.device import Cause
from cause.device.disk import Disk

COMMON: list[tuple[str, dict[str, Any]]] = [
    ("bayes", {"system": "frugal", "shards": 2, "slots": 8}),
    ("bayes", {"system": "frugal", "shards": 1, "slots": 8}),
    ("additive", {"system": "additive", "shards": 1, "slots": 8}),
]
_homes: dict[str, dict[Path, bytes | None]] = {}


def make() -> None:
    """Make those that most tests begin with."""
    from tests.device.homes import KEY, LEARNERS, MASTER

    before = os.environ.get("CAUSE_TEST_KEY")
    os.environ["CAUSE_TEST_KEY"] = MASTER
    for kind, settings in COMMON:
        with TemporaryDirectory() as place:
            home = Path(place) / "home"
            Cause(home, learner=LEARNERS[kind][0](), key=KEY, **settings).close()
            files = {path.relative_to(home): path.read_bytes() if path.is_file() else None for path in home.rglob("*")}
        _homes[_name(kind, settings)] = dict(sorted(files.items()))
    del os.environ["CAUSE_TEST_KEY"]
    if before is not None:
        os.environ["CAUSE_TEST_KEY"] = before


def copy(folder: Path, kind: str, settings: dict[str, Any]) -> None:
    """Copy a home into this folder if one with these settings was made, and the test writes to an ordinary disk."""
    files = _homes.get(_name(kind, settings))
    if files is None or vars(attach)["Disk"] is not Disk or folder.exists() or not folder.is_absolute():
        return
    folder.mkdir(mode=0o700, parents=True)
    for name, content in files.items():
        if content is None:
            (folder / name).mkdir(mode=0o700)
        else:
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes(content)


def _name(kind: str, settings: dict[str, Any]) -> str:
    return repr((kind, sorted(settings.items(), key=lambda item: item[0]), os.environ.get("CAUSE_TEST_KEY")))
