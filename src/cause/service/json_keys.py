"""Refusing JSON objects that name a key twice.

Parsers disagree on what `{"rounds": [1], "rounds": null}` means; most take the last value. An erasure of one round
would become one of everything, so a body with a doubled key is refused.
"""

import json
import re
from typing import Any

from cause.service.problems import ProblemError

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?|[{}]', re.DOTALL)
"""A string, with the colon that makes it a key, or a brace: numbers and the rest are passed over."""


def refuse_duplicate_keys(body: bytes) -> None:
    r"""Refuse a body in which an object has the same key twice.

    Parameters
    ----------
    body
        A body that a parser has accepted as JSON.

    Raises
    ------
    ProblemError
        422 with the key's place; the key itself is not repeated.

    Examples
    --------
    >>> refuse_duplicate_keys(b'{"a": {"b": 1}, "c": [{"b": 1}, {"b": "{a: 1}"}]}')
    >>> refuse_duplicate_keys(b'{"a": 1, "\\u0061": 2}')
    Traceback (most recent call last):
    ...
    cause.service.problems.ProblemError: the JSON has a key twice in one object: its key at byte 9
    """
    objects: list[set[str]] = []
    for match in _TOKEN.finditer(body):
        text = match[0]
        if text == b"{":
            objects.append(set())
        elif text == b"}":
            objects.pop()
        elif match[1] is not None:
            key = text[: len(text) - len(match[1])]
            name = json.loads(key) if b"\\" in key else key[1:-1].decode("utf-8", "replace")
            if name in objects[-1]:
                raise ProblemError(422, f"the JSON has a key twice in one object: its key at byte {match.start()}")
            objects[-1].add(name)


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a dict, for `json.loads(…, object_pairs_hook=unique_pairs)`; ValueError for a doubled key."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)
