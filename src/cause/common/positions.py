"""Sets of positions within one upload. A run of positions takes little memory, and most sets are runs.

A set is a `range` (step 1) if it is a run, else a sorted integer array. A run may be given as an array too: all
functions here treat both alike, and `runs` returns the same bytes for both.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]
Positions = range | Array
_ITEM = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?", re.ASCII)


def array(positions: Positions) -> Array:
    """Return a set as a sorted array."""
    if isinstance(positions, range):
        return np.arange(positions.start, positions.stop, dtype=np.int64)
    return positions


def from_values(values: Iterable[int]) -> Positions:
    """Return the set of these values.

    >>> from_values([3, 1, 2, 2]), from_values([5, 1])
    (range(1, 4), array([1, 5]))
    """
    return _lean(np.unique(np.fromiter(values, dtype=np.int64)))


def _lean(values: Array) -> Positions:
    if not len(values):
        return range(0)
    first, last = int(values[0]), int(values[-1])
    return range(first, last + 1) if last - first + 1 == len(values) else values


def common(a: Positions, b: Positions) -> Positions:
    """Return the intersection of two sets.

    >>> common(range(0, 8), range(5, 20)), common(range(0, 4), from_values([1, 3, 9]))
    (range(5, 8), array([1, 3]))
    """
    if isinstance(a, range) and isinstance(b, range):
        start, stop = max(a.start, b.start), min(a.stop, b.stop)
        return range(start, stop) if start < stop else range(0)
    if isinstance(b, range):
        a, b = b, a
    if isinstance(a, range):
        low, high = np.searchsorted(b, (a.start, a.stop))
        return _lean(array(b)[low:high])
    return _lean(np.intersect1d(a, b, assume_unique=True))


def minus(a: Positions, b: Positions) -> Positions:
    """Return the positions in `a` that are not in `b`.

    >>> minus(range(0, 10), range(0, 4)), minus(range(0, 5), range(2, 3)), minus(range(3), range(3))
    (range(4, 10), array([0, 1, 3, 4]), range(0, 0))
    """
    b = common(a, b)
    if not len(b):
        return a
    if len(b) == len(a):
        return range(0)
    if isinstance(a, range) and isinstance(b, range):
        if b.start == a.start:
            return range(b.stop, a.stop)
        if b.stop == a.stop:
            return range(a.start, b.start)
    return _lean(np.setdiff1d(array(a), array(b), assume_unique=True))


def union(parts: Sequence[Positions]) -> Positions:
    """Return the union of disjoint sets.

    >>> union([range(0, 2), range(2, 4)]), union([])
    (range(0, 4), range(0, 0))
    """
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else range(0)
    runs_ = sorted((part for part in filled if isinstance(part, range)), key=lambda run: run.start)
    if len(runs_) == len(filled) and all(a.stop == b.start for a, b in pairwise(runs_)):
        return range(runs_[0].start, runs_[-1].stop)
    return _lean(np.sort(np.concatenate([array(part) for part in filled])))


def lowest(positions: Positions, count: int) -> Positions:
    """Return the lowest `count` positions of a set.

    >>> lowest(range(4, 9), 2), lowest(from_values([1, 5, 9]), 2)
    (range(4, 6), array([1, 5]))
    """
    return positions[:count] if isinstance(positions, range) else _lean(positions[:count])


def count_below(positions: Positions, bounds: Sequence[int]) -> list[int]:
    """Return how many positions are below each bound.

    >>> count_below(range(4, 9), [0, 6, 20]), count_below(from_values([1, 5, 9]), [5, 6])
    ([0, 2, 5], [1, 2])
    """
    if isinstance(positions, range):
        return [min(max(bound - positions.start, 0), len(positions)) for bound in bounds]
    counts: list[int] = np.searchsorted(positions, bounds).tolist()
    return counts


def split(positions: Positions, codes: NDArray[np.integer]) -> dict[int, Positions]:
    """Split a set by a code for each of its members, such as a shard or a slice; return the parts by code.

    >>> split(range(4), np.array([1, 0, 1, 1]))
    {0: range(1, 2), 1: array([0, 2, 3])}
    """
    if not len(positions):
        return {}
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(sorted_codes)) + 1))
    parts = np.split(array(positions)[order], starts[1:])
    return {int(sorted_codes[start]): _lean(part) for start, part in zip(starts, parts, strict=True)}


def runs(positions: Positions) -> bytes:
    """Return a set as bytes, a list of runs; equal sets give equal bytes.

    >>> runs(range(2, 5)), runs(np.array([2, 3, 4])), runs(from_values([0, 1, 7]))
    (b'2-5', b'2-5', b'0-2,7-8')
    """
    if isinstance(positions, range):
        return b"%d-%d" % (positions.start, positions.stop) if len(positions) else b""
    if not len(positions):
        return b""
    breaks = np.flatnonzero(np.diff(positions) > 1)
    starts = positions[np.concatenate(([0], breaks + 1))]
    stops = positions[np.concatenate((breaks, [len(positions) - 1]))] + 1
    return b",".join(b"%d-%d" % pair for pair in zip(starts.tolist(), stops.tolist(), strict=True))


def from_runs(name: bytes) -> Positions:
    """Return the set of which `runs` returned these bytes.

    >>> from_runs(b"2-5"), from_runs(b"0-2,7-8"), from_runs(b"")
    (range(2, 5), array([0, 1, 7]), range(0, 0))
    """
    parts = [range(*map(int, run.split(b"-"))) for run in name.split(b",") if run]
    return union(parts)


def to_text(positions: Positions) -> str:
    """Return a set as text for people: numbers, and ranges with both ends included.

    >>> to_text(range(2, 5)), to_text(from_values([0, 1, 7])), to_text(range(0))
    ('2-4', '0-1,7', '')
    """
    pairs = (run.split(b"-") for run in runs(positions).split(b",") if run)
    ends = ((int(start), int(stop) - 1) for start, stop in pairs)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def from_text(text: str, most: int) -> Positions:
    """Parse a text of `to_text`; raise a `ValueError` if it is no set, or has more than `most` members.

    >>> from_text("0-1,7", most=3)
    array([0, 1, 7])
    >>> from_text("3,2", most=3)
    Traceback (most recent call last):
    ValueError: 2 after 3
    """
    parts: list[range] = []
    total, least = 0, 0
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if not match:
            raise ValueError(f"{item[:20]!r} is no position or range")
        first, last = int(match[1]), int(match[2] or match[1])
        if first < least:
            raise ValueError(f"{first} after {least - 1}")
        if last < first:
            raise ValueError(f"{item!r} is empty")
        total, least = total + last - first + 1, last + 1
        if total > most:
            raise ValueError(f"more than {most:,} positions")
        parts.append(range(first, last + 1))
    return union(parts)
