"""SC, the shard controller: fewer shards take new data as rounds go by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cause.errors import InputError

MOST_SHARDS = 1_000_000
"""The largest number of shards that is accepted."""


@dataclass(frozen=True)
class ShardController:
    """Computes the number of shards that take data in round *t*: S_t = max(1, floor(γS + (1-γ)S·e^(-pt) + 0.5)).

    The other shards are frozen: they get no new data, but vote and forget. With γ = 1 the number is fixed. The active
    shards are the lowest; with `in_turn` they take turns, so that none is frozen for good: each round goes on where the
    last one stopped.

    Raises
    ------
    InputError
        If a parameter is out of range.

    Examples
    --------
    >>> [ShardController(4).at(t) for t in range(1, 11)]
    [3, 3, 2, 2, 2, 2, 2, 2, 2, 2]
    >>> ShardController(4, gamma=1).at(7)
    4
    >>> [list(ShardController(4, in_turn=True).active(t)) for t in (1, 2, 3)]
    [[0, 1, 2], [3, 0, 1], [2, 3]]
    """

    shards: int
    p: float = 0.5
    gamma: float = 0.5
    in_turn: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= MOST_SHARDS:
            raise InputError(f"the number of shards must be from 1 to {MOST_SHARDS:,}, not {self.shards}")
        if not 0 <= self.gamma <= 1:
            raise InputError(f"γ must be from 0 to 1, not {self.gamma}")
        if not (self.p >= 0 and math.isfinite(self.p)):
            raise InputError(f"p must be a number not below 0, not {self.p}")

    def at(self, t: int) -> int:
        """Return S_t, the number of active shards in round t."""
        floor, rest = self.gamma * self.shards, (1 - self.gamma) * self.shards
        return max(1, math.floor(floor + rest * math.exp(-self.p * t) + 0.5))

    def active(self, t: int) -> Sequence[int]:
        """Return the active shards of round t, in the order in which a partition numbers them."""
        if not self.in_turn:
            return range(self.at(t))
        if self.at(t) == self.shards:
            return range(self.shards)
        start, now = 0, self.at(t)
        for earlier in range(1, t):
            if self.at(earlier) == now:  # the number never rises, so it has not changed since
                start += (t - earlier) * now
                break
            start += self.at(earlier)
        return [(start + number) % self.shards for number in range(now)]

    @property
    def most(self) -> int:
        """The largest number of shards that ever take data, and so of heads."""
        return self.shards if self.in_turn else self.at(1)
