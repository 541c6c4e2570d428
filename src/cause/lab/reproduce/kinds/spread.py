"""How even the shards are: Algorithm 1 as printed, UCDP with its ties broken, and longest first."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from cause.common.hashing import keyed_int, root_key
from cause.engine.partition.balanced import longest_first
from cause.engine.partition.ucdp import ucdp
from cause.engine.presets import FIXED, System
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.resources import Resources
from cause.lab.simulate import Setting
from cause.lab.simulate import run as simulate
from cause.lab.trace import Trace
from cause.lab.workload import Workload

PRINTED = "Algorithm 1 as printed"
FIRST, LAST = "first round", "after 10 rounds"


def algorithm_1(
    sizes: Mapping[str, int], shards: int, placements: Mapping[str, int], seed: tuple[bytes, int]
) -> dict[str, int]:
    """Assign users to shards by Algorithm 1 exactly as printed: only the positive part of the excess counts.

    All users who do not exceed the average are therefore equal; the paper does not say which of them to take, and here
    the first by id is taken. The time is quadratic in the users, so it is for this comparison only.

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
    dict
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

        def excess(user: str, shard: int = shard) -> float:
            return max(0.0, (size[shard] + sizes[user]) / (members[shard] + 1) - average)

        chosen = min(waiting, key=excess)
        waiting.remove(chosen)
        placed[chosen] = shard
        size[shard] += sizes[chosen]
        members[shard] += 1
        shard = (shard + 1) % shards
    return placed


STRATEGIES = {PRINTED: algorithm_1, "ucdp": ucdp, "balanced": longest_first}


def run(settings: Settings, resources: Resources) -> dict[str, Any]:
    """Return the spread of the shard sizes of each seed's workload, without requests and with fixed shards."""
    measure = _first_round if settings["when"] == FIRST else _last_round
    traces = (_trace(settings["users"], settings["samples"], seed) for seed in range(settings["seeds"]))
    loads = (measure(trace, settings["strategy"], settings["shards"], seed) for seed, trace in enumerate(traces))
    return {"spread": [spread_of(load) for load in loads]}


def spread_of(load: Sequence[int]) -> float:
    """Return (largest - smallest) / mean of the shard sizes.

    >>> spread_of([8, 12, 10])
    0.4
    """
    return (max(load) - min(load)) / (sum(load) / len(load))


@lru_cache(maxsize=64)
def _trace(users: int, samples: int, seed: int) -> Trace:
    return Workload(users=users, samples=samples, rho=0, seed=seed).trace()


def _first_round(trace: Trace, name: str, shards: int, seed: int) -> list[int]:
    sizes = {upload.user: len(upload.positions) for upload in trace.rounds[0].uploads()}
    load = [0] * shards
    for user, shard in STRATEGIES[name](sizes, shards, {}, (root_key(seed), 1)).items():
        load[shard] += sizes[user]
    return load


def _last_round(trace: Trace, name: str, shards: int, seed: int) -> list[int]:
    fixed = System(partition=name, gamma=FIXED, policy="latest")
    ledger = simulate(trace, fixed, Setting(shards=shards, seed=seed)).device.ledger
    return [ledger.lineage(shard).samples for shard in range(shards)]
