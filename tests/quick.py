"""Which values of a parameter the quick suite tries; `--long` (`make test-long`) tries all."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def quick_only(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """All values for `pytest.mark.parametrize`: those that are not in `quick` are marked `long`.

    A tuple has a value for each of several parameters.
    """
    long = pytest.mark.long
    return [
        value if value in quick else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=long)
        for value in values
    ]
