"""What a composition leaves open until a device is made: whether its memory is short enough to prune for."""

from collections.abc import Callable
from dataclasses import replace

from cause.common.units import parse_bytes
from cause.engine.controller import ShardController
from cause.engine.memory import POLICIES
from cause.engine.presets import FIXED, IF_NEEDED, System

PLANNED_ROUNDS = 10
"""The rounds of the paper's evaluation: a memory that holds one sub-model of each shard for each is ample."""


def settled(
    system: System, sub_model_bytes: Callable[[System], int], shards: int, memory: str | int, slots: int | None
) -> System:
    """The system with its pruning decided: none where the memory is ample, 70 % where the budget binds.

    A pure function of what the device is made with, never of data. Where pruning would not make the memory hold one
    sub-model more (it is given in slots, or the sub-models are no networks), there is none.

    Parameters
    ----------
    sub_model_bytes
        The size of a sub-model under a system.

    >>> from cause.engine.presets import PRESETS
    >>> size = lambda system: 2**20 if system.pruning == "none" else 2**18
    >>> [settled(PRESETS["recommended"], size, 4, memory, None).pruning for memory in ("1GB", "20MB")]
    ['none', 'iterative-70']
    """
    if system.pruning != IF_NEEDED:
        return system
    dense, pruned = (replace(system, pruning=each) for each in ("none", "iterative-70"))
    if slots is not None or not POLICIES[system.policy].bounded:
        return dense
    heads = ShardController(shards, system.p, system.gamma if system.controlled else FIXED).most
    if parse_bytes(memory) >= PLANNED_ROUNDS * heads * sub_model_bytes(dense):
        return dense
    return pruned if sub_model_bytes(pruned) < sub_model_bytes(dense) else dense
