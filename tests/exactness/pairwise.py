"""Few cases in which every feasible pair of values meets.

Our own forty lines instead of a package: constraints here forbid pairs, the order must never change between runs, and
a test compares the outcome with the full product.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Values = Mapping[str, Any]
Feasible = Callable[[Values], bool]
"""Is a combination possible, as far as its dimensions are given?"""
Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairs_of(case: Values) -> Iterator[Pair]:
    """The pairs of values that meet in a case."""
    return combinations(case.items(), 2)


def feasible_pairs(dimensions: Mapping[str, Sequence[Any]], feasible: Feasible) -> list[Pair]:
    """Every pair of values of two dimensions that may meet."""
    return [
        ((one, a), (other, b))
        for one, other in combinations(dimensions, 2)
        for a, b in product(dimensions[one], dimensions[other])
        if feasible({one: a, other: b})
    ]


def pairwise(dimensions: Mapping[str, Sequence[Any]], feasible: Feasible) -> Iterator[dict[str, Any]]:
    """Return cases that cover every feasible pair, chosen greedily and deterministically.

    >>> [tuple(case.values()) for case in pairwise({"a": "xy", "b": "12", "c": "pq"}, lambda case: True)]
    [('x', '1', 'p'), ('x', '2', 'q'), ('y', '1', 'q'), ('y', '2', 'p')]
    """
    open_pairs = dict.fromkeys(feasible_pairs(dimensions, feasible))  # a set that keeps its order
    uses = {(name, value): 0 for name, values in dimensions.items() for value in values}

    def gain(case: Values, name: str, value: Any) -> tuple[int, int]:
        """How many open pairs a value would meet; of equals, the value that was used least."""
        together = {each: {**case, name: value}[each] for each in dimensions if each in case or each == name}
        covered = sum(pair in open_pairs for pair in pairs_of(together) if (name, value) in pair)
        return covered, -uses[name, value]

    while open_pairs:
        case = dict(next(iter(open_pairs)))
        for name in [name for name in dimensions if name not in case]:
            possible = [value for value in dimensions[name] if feasible({**case, name: value})]
            case[name] = max((*gain(case, name, value), -i, value) for i, value in enumerate(possible))[-1]
        case = {name: case[name] for name in dimensions}
        for pair in pairs_of(case):
            open_pairs.pop(pair, None)
        for name, value in case.items():
            uses[name, value] += 1
        yield case


def fewest_with(cases: Sequence[Any], required: Iterable[Pair], values: Iterable[tuple[str, Any]] = ()) -> list[Any]:
    """Some of these cases in which these pairs meet and these values occur, the case with most of them first.

    Parameters
    ----------
    cases
        Objects whose fields are the dimensions; each of the pairs meets in one of them.
    values
        Names of dimensions with a value of each.
    """
    missing: set[Any] = {*required, *values}
    parts = [{*pairs_of(vars(case)), *vars(case).items()} & missing for case in cases]
    chosen = []
    while missing:
        best = max(range(len(cases)), key=lambda i: (len(parts[i] & missing), -i))
        if not parts[best] & missing:
            raise ValueError(f"no case has {min(missing, key=str)}")
        missing -= parts[best]
        chosen.append(cases[best])
    return chosen
