"""Registries of named strategies: ours and those of other packages. An unknown name is an error that lists them."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from cause.common.plugins import entry_points_of, load, package_of
from cause.errors import InputError

T = TypeVar("T")


def nearest(name: object, choices: Iterable[str]) -> str:
    """Return a hint for error messages at the choice most similar to an unknown name; empty if none is similar.

    >>> nearest("shard", ["shards", "slots"]), nearest("colour", ["shards", "slots"])
    (" (did you mean 'shards'?)", '')
    """
    near = get_close_matches(str(name), list(choices), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def check_choice(kind: str, value: object, choices: Sequence[str]) -> None:
    """Raise an `InputError` unless the value is one of the choices.

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
        The word for a strategy in error messages: "policy", "vote".
    entries
        The strategies of this package by name.
    group
        The group of entry points in which other packages register strategies; None if there is none. They are
        searched when a name is not in `entries` or all names are listed, and imported when one is used. A name in
        `entries` cannot be replaced.
    accepts
        A function that says whether an object of another package is a strategy of this kind.

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
        plugins = self._plugins()
        if name not in plugins:
            names = [*self._entries, *plugins]
            missing = "" if self.group is None else f"; a package that brings it as {self.group!r} is not installed"
            raise InputError(
                f"unknown {self.kind} {name!r}{nearest(name, names)}: one of {', '.join(sorted(names))}{missing}"
            )
        strategy: T = load(self.kind, name, plugins[name])
        if not self._accepts(strategy):
            raise InputError(
                f"the {self.kind} {name!r} of the package {package_of(plugins[name][0])!r} is no {self.kind}: "
                f"{strategy!r}"
            )
        return strategy

    def _plugins(self) -> dict[str, list[Any]]:
        """Return the entry points of other packages by name; none is loaded."""
        plugins: dict[str, list[Any]] = {}
        for entry in entry_points_of(self.group) if self.group is not None else ():
            if entry.name not in self._entries:
                plugins.setdefault(entry.name, []).append(entry)
        return plugins

    def taken(self) -> dict[str, str]:
        """Return our names that another package registers too, with its name; its strategies are not used."""
        entries = entry_points_of(self.group) if self.group is not None else ()
        return {entry.name: package_of(entry) for entry in entries if entry.name in self._entries}

    def refuse_taken(self, name: str) -> None:
        """Raise an `InputError` if another package registers one of our names: the caller may mean its strategy."""
        if name in (taken := self.taken()):
            raise InputError(
                f"the {self.kind} {name!r} is ours, and the package {taken[name]!r} brings another of that name: "
                "rename its entry point, or remove the package"
            )

    def get(self, name: str, default: Any = None) -> Any:
        """Return a strategy by name, or the default for an unknown name."""
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
        """Return the first line of a strategy's docstring."""
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]

    def summaries(self) -> dict[str, str]:
        """Return the summaries of all strategies: with the package if it is another one, or why one cannot be used."""
        lines = {name: self.summary(name) for name in self._entries}
        for name, entries in sorted(self._plugins().items()):
            try:
                lines[name] = f"{self.summary(name)} [{package_of(entries[0])}]"
            except InputError as error:
                lines[name] = str(error)
        return lines


def subclass_of(base: type) -> Callable[[Any], bool]:
    """Return a function that says whether an object is a subclass of `base`.

    >>> subclass_of(int)(bool), subclass_of(int)(7)
    (True, False)
    """
    return lambda made: isinstance(made, type) and issubclass(made, base)
