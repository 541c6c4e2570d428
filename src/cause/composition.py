"""What a composition leaves open until a device is made: whether its memory is short enough to prune for."""

from collections.abc import Callable
from dataclasses import replace

from cause.controller import ShardController
from cause.memory import POLICIES
from cause.presets import FIXED, IF_NEEDED, System
from cause.units import parse_bytes

PLANNED_ROUNDS = 10
"""The rounds of the paper's evaluation: a memory that holds one sub-model of each shard for each is ample."""


def settled(
    system: System, sub_model_bytes: Callable[[System], int], shards: int, memory: str | int, slots: int | None
) -> System:
    """The system with its pruning decided: none where the memory is ample, 70 % where the budget binds.

    A pure function of what the device is made with, never of data. Where the memory is given in slots, pruning would
    not make it hold one sub-model more, so there is none.

    Parameters
    ----------
    sub_model_bytes
        The size of a sub-model under a system.

    >>> from cause.presets import PRESETS
    >>> [settled(PRESETS["recommended"], lambda _: 2**20, 4, memory, None).pruning for memory in ("1GB", "20MB")]
    ['none', 'iterative-70']
    """
    if system.pruning != IF_NEEDED:
        return system
    dense = replace(system, pruning="none")
    if slots is not None or not POLICIES[system.policy].bounded:
        return dense
    heads = ShardController(shards, system.p, system.gamma if system.controlled else FIXED).most
    ample = parse_bytes(memory) >= PLANNED_ROUNDS * heads * sub_model_bytes(dense)
    return dense if ample else replace(system, pruning="iterative-70")
