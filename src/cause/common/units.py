"""Parsing and formatting sizes in bytes. GB is 2^30, as in the paper's "2 GB"."""

import math
import re

from cause.errors import InputError

_FACTOR = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?I?B|[KMGT]|)\s*", re.IGNORECASE | re.ASCII)


def parse_bytes(text: str | int) -> int:
    """Parse a size, such as 2GB, 512MB or a number of bytes; raise an `InputError` if it is none.

    >>> parse_bytes("2GB") == 2 * 2**30, parse_bytes("30.15 MB"), parse_bytes(512)
    (True, 31614566, 512)
    >>> parse_bytes("much")
    Traceback (most recent call last):
    cause.errors.InputError: not a size: 'much' (write it like 2GB, 512MB or 1000000)
    """
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise InputError(f"not a size: {str(text)!r} (write it like 2GB, 512MB or 1000000)")
    unit = match[2].upper().replace("I", "")
    value = float(match[1]) * _FACTOR[unit if unit in _FACTOR else unit + "B"]
    if not 1 <= value < 2**63:
        raise InputError(f"a size must be at least one byte and less than 2^63, not {str(text)!r}")
    return math.floor(value)


def format_bytes(size_bytes: int) -> str:
    """Format a number of bytes with a unit.

    >>> format_bytes(2 * 2**30), format_bytes(31614566), format_bytes(512)
    ('2.00 GB', '30.15 MB', '512 B')
    """
    for unit in ("TB", "GB", "MB", "KB"):
        if size_bytes >= _FACTOR[unit]:
            return f"{size_bytes / _FACTOR[unit]:.2f} {unit}"
    return f"{size_bytes} B"
