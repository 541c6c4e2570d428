"""How even the shards are: Algorithm 1 as printed, UCDP with its ties broken, and longest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cause.common.hashing import keyed_int, root_key
from cause.common.statistics import Mean
from cause.engine.partition.balanced import longest_first
from cause.engine.partition.ucdp import ucdp
from cause.engine.presets import FIXED, System
from cause.engine.progress import Progress
from cause.errors import InputError
from cause.lab.compare import MOST_SEEDS
from cause.lab.simulate import Setting, run
from cause.lab.trace import Trace
from cause.lab.workload import Workload

MOST_USERS = 2_000

Sizes = Mapping[str, int]


def printed(sizes: Sizes, shards: int, placements: Mapping[str, int], seed: tuple[bytes, int]) -> dict[str, int]:
    """Assign users to shards by Algorithm 1 exactly as printed: only the positive part of the excess counts.

    All users who do not exceed the average are therefore equal; the paper does not say which of them to take, and here
    the first by id is taken. It is slow, and only for this comparison.

    Parameters
    ----------
    sizes
        Samples of each user.
    shards
        The number of shards.
    placements
        Earlier placements; not used.
    seed
        The key and the round of the random choices.

    Returns
    -------
    The shard of each user.
    """
    key, round_ = seed
    waiting = sorted(sizes)
    if len(waiting) <= shards:
        return dict(zip(waiting, range(shards), strict=False))
    placed: dict[str, int] = {}
    for shard in range(shards):
        placed[waiting.pop(keyed_int(key, round_, shard) % len(waiting))] = shard
    size, members = [0] * shards, [1] * shards
    for user, shard in placed.items():
        size[shard] = sizes[user]
    average = sum(sizes.values()) / len(sizes)
    shard = 0
    while waiting:

        def overstep(user: str, shard: int = shard) -> float:
            return max(0.0, (size[shard] + sizes[user]) / (members[shard] + 1) - average)

        chosen = min(waiting, key=overstep)
        waiting.remove(chosen)
        placed[chosen] = shard
        size[shard] += sizes[chosen]
        members[shard] += 1
        shard = (shard + 1) % shards
    return placed


STRATEGIES = {"Algorithm 1 as printed": printed, "ucdp": ucdp, "balanced": longest_first}
FIRST, LAST = "first round", "after 10 rounds"
MEASURED = ((FIRST, "Algorithm 1 as printed"), (FIRST, "ucdp"), (FIRST, "balanced"), (LAST, "ucdp"), (LAST, "balanced"))


@dataclass(frozen=True)
class Spread:
    """(largest - smallest) / mean of the shard sizes, over the seeds."""

    when: str
    strategy: str
    shards: int
    spread: Mean


def measure(shard_counts: Sequence[int], users: int, seeds: int, progress: Progress) -> list[Spread]:
    """Measure the strategies on the paper's workload with a fixed number of shards and no requests.

    Parameters
    ----------
    shard_counts
        The numbers of shards.
    users
        How many users are drawn.
    seeds
        How many seeds, from 0.
    progress
        Called after each measurement.

    Raises
    ------
    InputError
        If there are too few or too many users or seeds.
    """
    least = 2 * max(shard_counts)  # Algorithm 1 as printed is quadratic in the users: at most MOST_USERS
    if not least <= users <= MOST_USERS:
        raise InputError(f"balance is shown for {least} to {MOST_USERS:,} users, not {users}")
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"the number of seeds must be from 1 to {MOST_SEEDS:,}, not {seeds}")
    samples = 500 * users  # the paper's mean: 50,000 samples of 100 users
    traces = [Workload(users=users, samples=samples, rho=0, seed=seed).trace() for seed in range(seeds)]
    spreads = []
    for when, name in MEASURED:
        for shards in shard_counts:
            loads = (
                _first_round(trace, name, shards, seed) if when == FIRST else _last_round(trace, name, shards, seed)
                for seed, trace in enumerate(traces)
            )
            spreads.append(Spread(when, name, shards, Mean.of([spread_of(load) for load in loads])))
            progress(len(spreads), len(MEASURED) * len(shard_counts))
    return spreads


def spread_of(load: Sequence[int]) -> float:
    """Return (largest - smallest) / mean of the shard sizes.

    >>> spread_of([8, 12, 10])
    0.4
    """
    return (max(load) - min(load)) / (sum(load) / len(load))


def _first_round(trace: Trace, name: str, shards: int, seed: int) -> list[int]:
    sizes = {upload.user: len(upload.positions) for upload in trace.rounds[0].uploads()}
    load = [0] * shards
    for user, shard in STRATEGIES[name](sizes, shards, {}, (root_key(seed), 1)).items():
        load[shard] += sizes[user]
    return load


def _last_round(trace: Trace, name: str, shards: int, seed: int) -> list[int]:
    fixed = System(partition=name, gamma=FIXED, policy="latest")
    ledger = run(trace, fixed, Setting(shards=shards, seed=seed)).device.ledger
    return [ledger.lineage(shard).samples for shard in range(shards)]
