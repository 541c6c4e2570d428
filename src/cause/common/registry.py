"""Named strategies: one line registers one, other packages bring more, and an unknown name tells what exists."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from cause.common.plugins import entry_points_of, load, package_of
from cause.errors import InputError

T = TypeVar("T")


def nearest(name: object, known: Iterable[str]) -> str:
    """A hint at the known name that is most like another one; nothing where none is.

    >>> nearest("shard", ["shards", "slots"]), nearest("colour", ["shards", "slots"])
    (" (did you mean 'shards'?)", '')
    """
    near = get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def check_choice(kind: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is not one of a few words.

    >>> check_choice("schedule", "linear", ("constant", "cosine"))
    Traceback (most recent call last):
    cause.errors.InputError: unknown schedule 'linear': one of constant, cosine
    """
    if value not in choices:
        raise InputError(f"unknown {kind} {value!r}{nearest(value, choices)}: one of {', '.join(choices)}")


class Registry(Mapping[str, T], Generic[T]):
    """A table of strategies of one kind.

    Parameters
    ----------
    kind
        What they are, for messages.
    entries
        Ours, by name.
    group
        The group of entry points by which other packages bring more; None if there is none. They are searched when a
        name is not ours or all names are listed, and imported when one is used. A name that is ours stays ours.
    accepts
        Whether something that a package brings is of this kind.

    Examples
    --------
    >>> Registry("policy", {"fifo": int, "cost": float})["fifa"]
    Traceback (most recent call last):
    cause.errors.InputError: unknown policy 'fifa' (did you mean 'fifo'?): one of cost, fifo
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, T],
        group: str | None = None,
        accepts: Callable[[Any], bool] = callable,
    ) -> None:
        self.kind, self.group = kind, group
        self._entries = dict(entries)
        self._accepts = accepts
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name in self._entries:
            return self._entries[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> T:
        found = self._plugins()
        if name not in found:
            known = [*self._entries, *found]
            missing = "" if self.group is None else f"; a package that brings it as {self.group!r} is not installed"
            raise InputError(
                f"unknown {self.kind} {name!r}{nearest(name, known)}: one of {', '.join(sorted(known))}{missing}"
            )
        made: T = load(self.kind, name, found[name])
        if not self._accepts(made):
            raise InputError(
                f"the {self.kind} {name!r} of the package {package_of(found[name][0])!r} is no {self.kind}: {made!r}"
            )
        return made

    def _plugins(self) -> dict[str, list[Any]]:
        """The entry points of other packages, by name; none is loaded."""
        found: dict[str, list[Any]] = {}
        for entry in entry_points_of(self.group) if self.group is not None else ():
            if entry.name not in self._entries:
                found.setdefault(entry.name, []).append(entry)
        return found

    def taken(self) -> dict[str, str]:
        """Names of ours that a package has, too: package by name. They are not used."""
        entries = entry_points_of(self.group) if self.group is not None else ()
        return {entry.name: package_of(entry) for entry in entries if entry.name in self._entries}

    def refuse_taken(self, name: str) -> None:
        """Refuse a name of ours that another package has, too: the caller may mean the other one."""
        if name in (taken := self.taken()):
            raise InputError(
                f"the {self.kind} {name!r} is ours, and the package {taken[name]!r} brings another of that name: "
                "rename its entry point, or remove the package"
            )

    def get(self, name: str, default: Any = None) -> Any:
        """As of any mapping: the default for an unknown name."""
        if name not in self:
            return default
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._loaded or name in self._plugins()

    def __iter__(self) -> Iterator[str]:
        return iter([*self._entries, *sorted(self._plugins())])

    def __len__(self) -> int:
        return len(self._entries) + len(self._plugins())

    def summary(self, name: str) -> str:
        """The first line of the strategy's docstring."""
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]

    def summaries(self) -> dict[str, str]:
        """The first lines of all: of packages too, which are named; of what cannot be used the reason."""
        lines = {name: self.summary(name) for name in self._entries}
        for name, entries in sorted(self._plugins().items()):
            try:
                lines[name] = f"{self.summary(name)} [{package_of(entries[0])}]"
            except InputError as error:
                lines[name] = str(error)
        return lines


def subclass_of(base: type) -> Callable[[Any], bool]:
    """Whether something is a class on a base.

    >>> subclass_of(int)(bool), subclass_of(int)(7)
    (True, False)
    """
    return lambda made: isinstance(made, type) and issubclass(made, base)
