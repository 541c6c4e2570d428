"""SC, the shard controller: fewer shards take new data as rounds go by."""

import math
from dataclasses import dataclass

from cause.errors import InputError

MOST_SHARDS = 1_000_000
"""The largest number of shards that is accepted."""


@dataclass(frozen=True)
class ShardController:
    """Computes the number of shards that take data in round *t*: S_t = max(1, floor(γS + (1-γ)S·e^(-pt) + 0.5)).

    The other shards are frozen: they get no new data, but vote and forget. With γ = 1 the number is fixed.

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
    """

    shards: int
    p: float = 0.5
    gamma: float = 0.5

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

    @property
    def most(self) -> int:
        """The largest number of active shards in any round, and so of heads."""
        return self.at(1)
