"""The paper's synthetic workload: random uploads and erasure requests of users over rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.engine.progress import Progress
from cause.engine.requests import Request
from cause.engine.samples import Part
from cause.errors import InputError
from cause.lab.trace import MOST_ROUNDS, Add, Round, Trace

MOST_USERS = 10_000_000
MOST_UPLOADS = 20_000_000
MOST_ALPHA = 1_000_000


@dataclass(frozen=True)
class Workload:
    """A seeded generator of traces; the defaults are the paper's.

    Sizes of users are uniform from 10 to 10,000, scaled to `samples`; each sample falls into a random round; a
    user's labels follow a Dirichlet distribution (smaller α, fewer classes each). In each round each user asks with
    probability ρ to forget a random part of one of their rounds so far.

    >>> trace = Workload(users=5, rounds=3, samples=200, seed=1).trace()
    >>> len(trace.rounds), trace.samples
    (3, 200)
    """

    users: int = 100
    rounds: int = 10
    samples: int = 50_000
    classes: int = 10
    rho: float = 0.1
    alpha: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {"users": MOST_USERS, "rounds": MOST_ROUNDS, "samples": 10**9, "classes": 1_000_000}
        for name, most in limits.items():
            if not 1 <= getattr(self, name) <= most:
                raise InputError(f"the number of {name} must be from 1 to {most:,}, not {getattr(self, name)}")
        if self.users * max(self.rounds, self.classes) > MOST_UPLOADS:
            raise InputError(
                f"{self.users:,} users, {self.rounds:,} rounds and {self.classes:,} classes are more than can be drawn"
            )
        if not 0 <= self.rho <= 1:
            raise InputError(f"ρ is a probability, from 0 to 1, not {self.rho}")
        if not 0 < self.alpha <= MOST_ALPHA:
            raise InputError(f"α must be above 0 and at most {MOST_ALPHA:,}, not {self.alpha}")
        if self.seed < 0:
            raise InputError(f"a seed must not be negative: {self.seed}")

    def trace(self, progress: Progress | None = None) -> Trace:
        """Draw the trace of this workload; the same seed gives the same trace."""
        rng = np.random.default_rng(self.seed)
        sizes = scaled(rng.integers(10, 10_001, size=self.users), self.samples)
        label_shares = rng.dirichlet(np.full(self.classes, self.alpha), size=self.users)
        share = np.full(self.rounds, 1 / self.rounds)
        per_round = np.stack([rng.multinomial(size, share) for size in sizes])
        left: list[dict[int, int]] = [{} for _ in range(self.users)]
        names = [f"u{user + 1}" for user in range(self.users)]
        rounds = []
        for number in range(1, self.rounds + 1):
            round_ = Round(number)
            for user in range(self.users):
                count = int(per_round[user, number - 1])
                if count:
                    labels = rng.multinomial(count, label_shares[user])
                    runs = tuple((int(label), int(labels[label])) for label in np.flatnonzero(labels))
                    round_.adds.append(Add(names[user], Part(count, runs)))
                    left[user][number] = count
            round_.forgets.extend(ask_some(names, left, self.rho, rng))
            rounds.append(round_)
            if progress:
                progress(number, self.rounds)
        return Trace(rounds)


def ask_some(
    names: Sequence[str], left: Sequence[dict[int, int]], rho: float, rng: np.random.Generator
) -> list[Request]:
    """Draw the requests of a round: each user who has samples left asks with probability ρ.

    Parameters
    ----------
    names
        The users.
    left
        For each user, the samples left by round; reduced by the requests.
    rho
        The probability.
    rng
        The random generator.
    """
    users_who_ask = rng.permutation(np.flatnonzero(rng.random(len(names)) < rho)).tolist()
    return [ask(names[user], left[user], rng) for user in users_who_ask if left[user]]


def ask(user: str, left: dict[int, int], rng: np.random.Generator) -> Request:
    """Draw a request for a random part of one of the user's rounds, and take it out of `left`."""
    of_round = list(left)[rng.integers(len(left))]
    count = int(rng.integers(1, left[of_round] + 1))
    left[of_round] -= count
    if not left[of_round]:
        del left[of_round]
    return Request(user, (of_round,), count)


def scaled(weights: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Return whole numbers in proportion to the weights that add up to the total.

    >>> scaled(np.array([1, 1, 2]), 10)
    array([2, 3, 5])
    """
    exact = weights / weights.sum() * total
    whole: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    short = np.argsort(exact - whole, kind="stable")[::-1][: total - int(whole.sum())]
    whole[short] += 1
    return whole
