"""What differs between two recipes, in words."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 40
"""Characters of a value that is shown: not the digest of a file, nor one number for each of many features."""


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs between two recipes; of two entries that are mappings, the first difference.

    Parameters
    ----------
    one, other
        Plain data by name. Values are compared as JSON, as a recipe's digest has them.

    Examples
    --------
    >>> list(differences({"bits": 8, "seed": 0}, {"bits": 12, "seed": 0}))
    ['bits is 8 here and 12 there']
    >>> list(differences({"backbone": {"sha256": 64 * "a"}}, {"backbone": {"sha256": 64 * "b"}}))
    ['backbone has another sha256']
    """
    for name, mine, others in _differing(one, other):
        if isinstance(mine, Mapping) and isinstance(others, Mapping):
            inner, one_value, other_value = next(_differing(mine, others))
            yield f"{name} has " + _both(
                one_value, other_value, f"{inner} {{}} here and {{}} there", f"another {inner}"
            )
        else:
            yield _both(mine, others, f"{name} is {{}} here and {{}} there", f"{name} differs")


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*one, *other]):
        mine, others = one.get(name), other.get(name)
        if json.dumps(mine, sort_keys=True) != json.dumps(others, sort_keys=True):
            yield name, mine, others


def _both(one: Any, other: Any, text: str, without: str) -> str:
    """Return a text with both values in it; the text without them if they are long."""
    values = json.dumps(one), json.dumps(other)
    return text.format(*values) if max(map(len, values)) <= LONGEST else without
