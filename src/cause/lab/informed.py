"""A policy for the laboratory: it is given the distribution of requested ages, and keeps the best sub-models."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cause.engine.memory import MemoryView, Policy, PolicySetting
from cause.engine.samples import SegmentKey
from cause.lab.ages import Ages

Floats = NDArray[np.float64]
NEVER = np.inf


class Informed(Policy):
    """Keeps the set of sub-models with the least expected RSN of the next request, which it knows the ages of.

    At each eviction it considers all stored sub-models and those that the replay under way will still make. In each
    shard dynamic programming finds the best set of every size; over the shards the sizes are shared out in the same
    way. A stored sub-model outside the best set is evicted. No device can have it, as nobody knows the distribution.

    Parameters
    ----------
    setting
        As for every policy.
    ages
        The distribution that the workload is drawn with.
    """

    def __init__(self, setting: PolicySetting, ages: Ages) -> None:
        super().__init__(setting)
        self._ages = ages
        self._plans: dict[int, tuple[object, tuple[Floats, list[list[int]]]]] = {}

    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        """Return the slot of the sub-model whose loss costs least under the true distribution of ages."""
        shards = sorted({*memory.shards(), newcomer.shard})
        plans = []
        for shard in shards:
            kept = list(memory.stored_of(shard))
            if shard == newcomer.shard:
                kept += [key for key, _ in memory.segments_of(shard) if key >= newcomer]
            plans.append((kept, *self._best(shard, kept, memory)))
        sizes = _shared_out([costs for _, costs, _ in plans], memory.slots)
        best: set[SegmentKey] = set()
        for (kept, _, chosen), size in zip(plans, sizes, strict=True):
            best |= {kept[index] for index in chosen[size]}
        outside = [key for key in memory.candidates(newcomer) if key not in best]
        return memory.slot_of(min(outside))

    def _best(self, shard: int, kept: Sequence[SegmentKey], memory: MemoryView) -> tuple[Floats, list[list[int]]]:
        """Return the least cost of a shard with 0, 1, 2 … of these sub-models, the last one always kept, and which."""
        segments = memory.segments_of(shard)
        situation = (tuple(kept), tuple(segments), memory.round, memory.slots)
        if shard not in self._plans or self._plans[shard][0] != situation:
            weights = [count * self._ages.weight(memory.round - key.round) for key, count in segments]
            ends = [index for index, (key, _) in enumerate(segments) if key in set(kept)]
            self._plans[shard] = situation, _best_sets([count for _, count in segments], weights, ends, memory.slots)
        return self._plans[shard][1]


def informed(ages: str) -> Callable[[PolicySetting], Policy]:
    """Return the factory of the policy for a distribution of ages."""
    parsed = Ages.parse(ages)
    return lambda setting: Informed(setting, parsed)


def _best_sets(
    samples: Sequence[int], weights: Sequence[float], ends: Sequence[int], most: int
) -> tuple[Floats, list[list[int]]]:
    """Return, for every number of kept sub-models, the least expected replay and the indices (into `ends`) of the set.

    Parameters
    ----------
    samples, weights
        Of each segment: its samples, and how likely a request touches it.
    ends
        The segments after which there is a sub-model that can be kept; the last one is kept always.
    most
        The largest number to consider.

    Examples
    --------
    >>> costs, sets = _best_sets([10, 10, 10, 10], [0, 0, 1, 1], [0, 1, 2, 3], most=4)
    >>> costs.tolist(), sets[3]
    ([inf, 50.0, 10.0, 0.0, 0.0], [1, 2, 3])
    """
    before = np.concatenate(([0], np.cumsum(samples)))
    touched = np.concatenate(([0.0], np.cumsum(weights)))
    # a request that touches segment i replays what is between the kept one before it and i, beyond the floor
    moment = np.concatenate(([0.0], np.cumsum(np.asarray(weights) * before[:-1])))
    starts = [0, *(end + 1 for end in ends)]

    def cost(start: int, stop: int) -> float:
        return float(moment[stop] - moment[start] - before[start] * (touched[stop] - touched[start]))

    count = len(ends)
    least = [[NEVER] * (count + 1) for _ in range(count + 1)]  # by how many are kept, and the last kept (0: scratch)
    came_from = [[0] * (count + 1) for _ in range(count + 1)]
    least[0][0] = 0.0
    for kept in range(1, min(count, most) + 1):
        for last in range(kept, count + 1):
            options = [least[kept - 1][prior] + cost(starts[prior], starts[last]) for prior in range(last)]
            came_from[kept][last] = prior = int(np.argmin(options))
            least[kept][last] = options[prior]
    costs = np.array([least[kept][count] if kept else NEVER for kept in range(min(count, most) + 1)])
    sets: list[list[int]] = []
    for kept in range(len(costs)):
        chosen, last = [], count
        for left in range(kept, 0, -1):
            chosen.append(last - 1)
            last = came_from[left][last]
        sets.append(chosen[::-1])
    return costs, sets


def _shared_out(costs: Sequence[Floats], slots: int) -> list[int]:
    """Return how many sub-models each shard keeps, so that the costs add up to the least.

    >>> _shared_out([np.array([NEVER, 9.0, 1.0]), np.array([NEVER, 5.0, 0.0])], slots=3)
    [2, 1]
    """
    least = np.full(slots + 1, NEVER)
    least[0] = 0.0
    chosen = []
    for shard in costs:
        options = np.full((len(shard), slots + 1), NEVER)
        for kept in range(1, min(len(shard) - 1, slots) + 1):
            options[kept, kept:] = least[: slots + 1 - kept] + shard[kept]
        chosen.append(options.argmin(axis=0))
        least = options.min(axis=0)
    left = int(np.argmin(least))
    sizes = []
    for sizes_of_shard in reversed(chosen):
        sizes.append(int(sizes_of_shard[left]))
        left -= sizes[-1]
    return sizes[::-1]
