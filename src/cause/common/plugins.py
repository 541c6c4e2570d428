"""Strategies of other packages, by entry points: looked up when a name is not ours, loaded when it is used.

A package registers them in its `pyproject.toml`, by group; nothing here has to be changed:

    [project.entry-points."cause.policies"]
    crowded = "my_package:Crowded"
"""

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cause.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""The names that a strategy may have, so that `policy=name,…` can be parsed."""


def entry_points_of(group: str) -> "tuple[EntryPoint, ...]":
    """Return the entry points of a group, of all installed packages; nothing is imported.

    >>> entry_points_of("cause.no-such-group")
    ()
    """
    return _installed(group, tuple(sys.path))


@lru_cache
def _installed(group: str, path: tuple[str, ...]) -> "tuple[EntryPoint, ...]":
    """Read the entry points on a path, once: it takes some milliseconds."""
    from importlib.metadata import entry_points  # slow to import on a small board, and seldom needed

    return tuple(entry_points(group=group))


def package_of(entry: "EntryPoint") -> str:
    """Return the name of the package that an entry point belongs to."""
    return entry.dist.name if entry.dist is not None else entry.module


def load(kind: str, name: str, entries: "list[EntryPoint]") -> Any:
    """Import the object that an entry point names.

    Parameters
    ----------
    kind, name
        The kind and the name of the strategy, for error messages.
    entries
        The entry points with that name; if there are several, it is not clear which is meant.

    Raises
    ------
    InputError
        If several packages bring the name, it cannot be written in a composition, or the package cannot be imported.
    """
    packages = sorted({package_of(entry) for entry in entries})
    if len(entries) > 1:
        raise InputError(f"the {kind} {name!r} comes with several packages ({', '.join(packages)}): remove all but one")
    if not NAME.fullmatch(name):
        raise InputError(
            f"the {kind} {name!r} of the package {packages[0]!r} has a name that no composition can hold: letters, "
            "digits, dots, dashes and underscores can"
        )
    try:
        return entries[0].load()
    except Exception as error:  # whatever the code of another package raises
        first = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"the {kind} {name!r} of the package {packages[0]!r} cannot be loaded: {type(error).__name__}: {first}"
        ) from error
