"""Named strategies: one line registers one, and an unknown name tells what exists."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

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

    >>> Registry("policy", {"fifo": int, "cost": float})["fifa"]
    Traceback (most recent call last):
    cause.errors.InputError: unknown policy 'fifa' (did you mean 'fifo'?): one of cost, fifo
    """

    def __init__(self, kind: str, entries: Mapping[str, T]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> T:
        if name in self._entries:
            return self._entries[name]
        hint = nearest(name, self._entries)
        raise InputError(f"unknown {self.kind} {name!r}{hint}: one of {', '.join(sorted(self._entries))}")

    def get(self, name: str, default: Any = None) -> Any:
        """As of any mapping: the default for an unknown name."""
        return self._entries.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def summary(self, name: str) -> str:
        """The first line of the strategy's docstring."""
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]
