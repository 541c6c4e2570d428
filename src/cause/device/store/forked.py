"""Keeps a forked process from using the home that its parent opened.

It shares files, locks and SQLite's connection with its parent, and each of the two would undo what the other writes.
"""

import ctypes
import os
from pathlib import Path
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from cause.errors import HomeError


class OpenHome(Protocol):
    """A home that this process has opened."""

    def disable_in_fork(self) -> None:
        """Make the home unusable in a forked process."""


_open: WeakSet[OpenHome] = WeakSet()


def refuse(folder: Path) -> NoReturn:
    """Raise an error: this process did not open the home."""
    raise HomeError(
        f"this process was forked from the one that opened {str(folder)!r}: open the home again here, or start "
        "processes with `spawn`"
    )


class Unusable:
    """Replaces a part of the home in a forked process: every use raises an error."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        refuse(self._folder)

    def __contains__(self, key: object) -> bool:
        refuse(self._folder)


def never_collect(part: object) -> None:
    """Keep an object alive: closing SQLite's connection in a forked process could delete the write-ahead log."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))


def disable_after_fork(home: OpenHome) -> None:
    """Make a home unusable in every process that is forked from now on, until it is closed."""
    _open.add(home)


def cancel_disable_after_fork(home: OpenHome) -> None:
    """Stop watching a home that is closed."""
    _open.discard(home)


def _in_child() -> None:
    for home in list(_open):
        home.disable_in_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
