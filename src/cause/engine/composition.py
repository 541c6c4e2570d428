"""Decides, when a device is made, whether its memory is so small that sub-models are pruned."""

from collections.abc import Callable
from dataclasses import replace

from cause.common.units import parse_bytes
from cause.engine.controller import ShardController
from cause.engine.memory import POLICIES
from cause.engine.presets import FIXED, IF_NEEDED, IN_TURN, System

PLANNED_ROUNDS = 10
"""The rounds of the paper's evaluation: a memory for one sub-model of each shard and round needs no pruning."""


def with_pruning_decided(
    system: System, sub_model_bytes: Callable[[System], int], shards: int, memory: str | int, slots: int | None
) -> System:
    """Return the system with its pruning decided: none if the memory is large enough, else 70 %.

    The decision depends on the arguments only, never on data. If pruning would not make room for more sub-models
    (because the memory is given in slots, or sub-models are no networks), there is none.

    Parameters
    ----------
    system
        The system; one that does not leave its pruning open is returned as it is.
    sub_model_bytes
        Returns the size of a sub-model under a system.
    shards, memory, slots
        As for the device.

    Examples
    --------
    >>> from cause.engine.presets import PRESETS
    >>> size = lambda system: 2**20 if system.pruning == "none" else 2**18
    >>> [with_pruning_decided(PRESETS["recommended"], size, 4, memory, None).pruning for memory in ("1GB", "20MB")]
    ['none', 'iterative-70']
    """
    if system.pruning != IF_NEEDED:
        return system
    dense, pruned = (replace(system, pruning=pruning) for pruning in ("none", "iterative-70"))
    if slots is not None or not POLICIES[system.policy].bounded:
        return dense
    gamma = system.gamma if system.controlled else FIXED
    heads = ShardController(shards, system.p, gamma, in_turn=system.active == IN_TURN).most
    if parse_bytes(memory) >= PLANNED_ROUNDS * heads * sub_model_bytes(dense):
        return dense
    return pruned if sub_model_bytes(pruned) < sub_model_bytes(dense) else dense
