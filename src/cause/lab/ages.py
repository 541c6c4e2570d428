"""How old the data is that users ask to forget, in rounds: 0 is the current round."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from cause.errors import InputError
from cause.lab.trace import Trace

UNIFORM, CURRENT, RECENT, WEIGHTS = "uniform", "current", "recent", "weights"
FORMS = "'uniform', 'current', 'recent:FACTOR' or 'weights:NUMBER,NUMBER,…'"
MOST_AGES = 1_000_000


@dataclass(frozen=True)
class Ages:
    """The likelihood of each age of requested data. Only the ratios of `weight` matter.

    Parameters
    ----------
    kind
        `uniform`: every round that the user has samples of is as likely; `current`: the current round only; `recent`:
        P(age a) ∝ factor^a; `weights`: P(age a) ∝ the weight at index a.
    factor
        Of `recent`: above 0 and at most 1.
    weights
        Of `weights`: by age; no request names a higher age.

    Raises
    ------
    InputError
        If the factor or a weight is out of range.

    Examples
    --------
    >>> ages = Ages.parse("recent:0.5")
    >>> [ages.weight(age) for age in range(3)], str(ages)
    ([1.0, 0.5, 0.25], 'recent:0.5')
    >>> Ages.parse("recent:2")
    Traceback (most recent call last):
    cause.errors.InputError: the factor of recent ages must be above 0 and at most 1, not 2.0
    """

    kind: str = UNIFORM
    factor: float = 1.0
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == RECENT and not 0 < self.factor <= 1:
            raise InputError(f"the factor of recent ages must be above 0 and at most 1, not {self.factor}")
        if self.kind == WEIGHTS:
            if not 1 <= len(self.weights) <= MOST_AGES or not any(self.weights):
                raise InputError(f"weights of ages need 1 to {MOST_AGES:,} numbers, one of them above 0")
            for weight in self.weights:
                if not 0 <= weight <= 1e15:
                    raise InputError(f"the weight of an age must be from 0 to 1e15, not {weight}")

    @classmethod
    def parse(cls, text: str) -> "Ages":
        """Return the ages that a text describes.

        Raises
        ------
        InputError
            If it describes none.
        """
        kind, colon, rest = text.partition(":")
        if kind in (UNIFORM, CURRENT) and not colon:
            return cls(kind)
        try:
            if kind == RECENT and colon:
                return cls(kind, factor=float(rest))
            if kind == WEIGHTS and colon:
                return cls(kind, weights=tuple(float(weight) for weight in rest.split(",")))
        except ValueError:
            pass
        raise InputError(f"ages are {FORMS}, not {text[:60]!r}")

    @classmethod
    def of_trace(cls, trace: Trace) -> "Ages":
        """Return the ages that the requests of a trace have, as often as they have them.

        A request for everything of a user has no age and is not counted.

        Raises
        ------
        InputError
            If no request has an age.
        """
        counts: Counter[int] = Counter()
        for round_ in trace.rounds:
            for request in round_.forgets:
                if request.rounds is not None:
                    counts[round_.number - request.rounds[0]] += 1
                elif request.samples is not None:
                    counts[round_.number - request.samples[0][0]] += 1
        if not counts:
            raise InputError("no request of the trace names a round: there are no ages to take from it")
        return cls(WEIGHTS, weights=tuple(float(counts[age]) for age in range(max(counts) + 1)))

    def weight(self, age: int) -> float:
        """Return how likely an age is, compared with others."""
        if self.kind == UNIFORM:
            return 1.0
        if self.kind == CURRENT:
            return float(age == 0)
        if self.kind == RECENT:
            return float(self.factor**age)
        return self.weights[age] if age < len(self.weights) else 0.0

    def draw(self, rounds: Sequence[int], now: int, rng: np.random.Generator) -> int | None:
        """Draw one of these rounds by its age; None if all their ages have the weight 0."""
        if self.kind == UNIFORM:
            return rounds[int(rng.integers(len(rounds)))] if rounds else None
        sums = list(accumulate(self.weight(now - round_) for round_ in rounds))
        if not sums or not sums[-1]:
            return None
        # the first whose sum is above the drawn number, so that a weight of 0 is never drawn
        at = bisect_left(sums, np.nextafter(rng.random() * sums[-1], np.inf))
        return rounds[min(at, len(rounds) - 1)]

    def __str__(self) -> str:
        if self.kind == RECENT:
            return f"{RECENT}:{self.factor:g}"
        if self.kind == WEIGHTS:
            return f"{WEIGHTS}:" + ",".join(f"{weight:g}" for weight in self.weights)
        return self.kind
