"""The paper's synthetic workload: random uploads and erasure requests of users over rounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.common import positions as pos
from cause.common.positions import Positions
from cause.common.registry import check_choice
from cause.engine.progress import Progress
from cause.engine.requests import Request
from cause.engine.samples import Part
from cause.errors import InputError
from cause.lab.ages import CURRENT, UNIFORM, Ages
from cause.lab.trace import MOST_ROUNDS, Add, Round, Trace

MOST_USERS = 10_000_000
MOST_UPLOADS = 20_000_000
MOST_ALPHA = 1_000_000

PART, ROUND, USER = "part", "round", "user"
SCOPES = (PART, ROUND, USER)
EVERY_ROUND, COHORTS = "every-round", "cohorts"
ARRIVALS = (EVERY_ROUND, COHORTS)
DIRICHLET, IID = "dirichlet", "iid"
LABELS = (DIRICHLET, IID)

Left = dict[int, Positions]
"""The samples that a user has left, by round."""


@dataclass(frozen=True)
class Workload:
    """A seeded generator of traces; the defaults are the paper's.

    Sizes of users are uniform from 10 to 10,000, scaled to `samples`; each sample falls into a random round. In each
    round each user asks with probability ρ to forget a random part of one of their rounds so far.

    With `arrivals="cohorts"` each user uploads once: users/rounds new users in each round. The requests of a round are
    then ρ times the new users, rounded so that none is lost over the rounds; each is of a random user of the cohort
    whose age is drawn.

    Parameters
    ----------
    users, rounds, samples, classes
        How many of each.
    rho
        How likely a user asks in a round.
    alpha
        The parameter of the Dirichlet distribution of a user's labels: the smaller, the fewer classes each.
    seed
        The same seed gives the same trace.
    ages
        The age of the data that requests name: `uniform`, `current`, `recent:FACTOR` or `weights:…` (`lab.ages`).
    scope
        What a request takes: a random `part` of a round, a whole `round`, or everything of the `user`.
    arrivals
        `every-round`: all users upload in each round; `cohorts`: each user uploads once.
    labels
        `dirichlet`: each user has a distribution of classes of their own; `iid`: all classes are as likely for all.

    Raises
    ------
    InputError
        If a number is out of range, or a word is unknown.

    Examples
    --------
    >>> trace = Workload(users=5, rounds=3, samples=200, seed=1).trace()
    >>> len(trace.rounds), trace.samples
    (3, 200)
    >>> paper = Workload(arrivals="cohorts", ages="current", scope="user").trace()  # the paper's Figure 11
    >>> [len(round_.adds) for round_ in paper.rounds[:3]], [len(round_.forgets) for round_ in paper.rounds[:3]]
    ([10, 10, 10], [1, 1, 1])
    """

    users: int = 100
    rounds: int = 10
    samples: int = 50_000
    classes: int = 10
    rho: float = 0.1
    alpha: float = 0.5
    seed: int = 0
    ages: str = UNIFORM
    scope: str = PART
    arrivals: str = EVERY_ROUND
    labels: str = DIRICHLET

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
        ages = Ages.parse(self.ages)
        check_choice("scope", self.scope, SCOPES)
        check_choice("arrivals", self.arrivals, ARRIVALS)
        check_choice("labels", self.labels, LABELS)
        if self.scope == USER and self.arrivals == EVERY_ROUND and ages.kind not in (UNIFORM, CURRENT):
            raise InputError(
                f"scope 'user' asks for all rounds at once, so ages {self.ages[:40]!r} choose nothing: leave them "
                f"out, or let users upload once (arrivals {COHORTS!r})"
            )
        if self.arrivals == COHORTS and self.users < self.rounds:
            raise InputError(f"cohorts need a new user in each round: {self.users} users for {self.rounds} rounds")

    def trace(self, progress: Progress | None = None) -> Trace:
        """Draw the trace of this workload; the same seed gives the same trace."""
        rng = np.random.default_rng(self.seed)
        sizes = scaled(rng.integers(10, 10_001, size=self.users), self.samples)
        label_shares = self._label_shares(rng)
        per_round = self._per_round(sizes, rng)
        asking = Asking(Ages.parse(self.ages), self.scope, rng, picking(self.seed))
        left: list[Left] = [{} for _ in range(self.users)]
        names = [f"u{user + 1}" for user in range(self.users)]
        rounds = []
        for number in range(1, self.rounds + 1):
            round_ = Round(number)
            for user in range(self.users):
                count = int(per_round(user, number))
                if count:
                    labels = rng.multinomial(count, label_shares[user])
                    runs = tuple((int(label), int(labels[label])) for label in np.flatnonzero(labels))
                    round_.adds.append(Add(names[user], Part(count, runs)))
                    left[user][number] = range(count)
            if self.arrivals == EVERY_ROUND:
                round_.forgets.extend(asking.each(names, left, self.rho, number))
            else:
                round_.forgets.extend(asking.of_cohorts(names, left, self._asked(number), number))
            rounds.append(round_)
            if progress:
                progress(number, self.rounds)
        return Trace(rounds)

    def _label_shares(self, rng: np.random.Generator) -> NDArray[np.float64]:
        if self.labels == IID:
            return np.full((self.users, self.classes), 1 / self.classes)
        return rng.dirichlet(np.full(self.classes, self.alpha), size=self.users)

    def _per_round(self, sizes: NDArray[np.int64], rng: np.random.Generator) -> Callable[[int, int], int]:
        """Return how many samples a user (from 0) uploads in a round (from 1)."""
        if self.arrivals == COHORTS:
            return lambda user, number: int(sizes[user]) if self._cohort(user) == number else 0
        share = np.full(self.rounds, 1 / self.rounds)
        split = np.stack([rng.multinomial(size, share) for size in sizes])
        return lambda user, number: int(split[user, number - 1])

    def _cohort(self, user: int) -> int:
        """Return the round in which a user (from 0) uploads, if each uploads once."""
        return user * self.rounds // self.users + 1

    def _asked(self, number: int) -> int:
        """Return how many requests the cohorts have in a round: ρ of its new users, rounding carried on."""
        joined = (-(-upto * self.users // self.rounds) for upto in (number - 1, number))  # users up to a round
        before, now = (int(self.rho * count + 0.5) for count in joined)
        return now - before


def picking(seed: int) -> np.random.Generator:
    """Return the generator that chooses the samples of partial requests; it leaves all other draws as they are."""
    return np.random.default_rng([seed, 2])


@dataclass(frozen=True)
class Asking:
    """Draws requests: who asks, for which round and which samples."""

    ages: Ages
    scope: str
    rng: np.random.Generator
    """Of users, ages and counts."""
    picks: np.random.Generator
    """Of the samples of a part."""

    def each(self, names: Sequence[str], left: Sequence[Left], rho: float, now: int) -> list[Request]:
        """Draw the requests of a round: each user who has samples left asks with probability ρ.

        Parameters
        ----------
        names
            The users.
        left
            For each user, the samples left by round; reduced by the requests.
        rho
            The probability.
        now
            The number of the round.
        """
        users_who_ask = self.rng.permutation(np.flatnonzero(self.rng.random(len(names)) < rho)).tolist()
        drawn = [self._ask(names[user], left[user], now) for user in users_who_ask if left[user]]
        return [request for request in drawn if request is not None]

    def of_cohorts(self, names: Sequence[str], left: Sequence[Left], requests: int, now: int) -> list[Request]:
        """Draw requests of users who upload once: first the cohort by its age, then one of its users.

        The parameters are those of `each`, with the number of requests instead of a probability.
        """
        drawn = []
        for _ in range(requests):
            rounds = sorted({round_ for held in left for round_ in held})
            cohort = self.ages.draw(rounds, now, self.rng)
            if cohort is None:
                break
            members = [user for user, held in enumerate(left) if cohort in held]
            user = members[int(self.rng.integers(len(members)))]
            drawn.append(self._take(names[user], left[user], cohort))
        return drawn

    def _ask(self, user: str, left: Left, now: int) -> Request | None:
        """Draw a request of a user; None if all ages of the user's samples have the weight 0."""
        of_round = self.ages.draw(list(left), now, self.rng)
        return None if of_round is None else self._take(user, left, of_round)

    def _take(self, user: str, left: Left, of_round: int) -> Request:
        """Return a request for samples of a round, as much as the scope says, and take them out of `left`."""
        if self.scope == USER:
            left.clear()
            return Request(user)
        held = left[of_round]
        count = len(held) if self.scope == ROUND else int(self.rng.integers(1, len(held) + 1))
        if count == len(held):
            del left[of_round]
            return Request(user, (of_round,))
        chosen = np.sort(self.picks.choice(pos.array(held), count, replace=False))
        left[of_round] = pos.minus(held, chosen)
        return Request(user, samples=tuple((of_round, position) for position in chosen.tolist()))


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
