"""The paper's tables and figures, one a file. To add one, write a file and add a line here."""

from cause.common.registry import Registry
from cause.lab.reproduce.figures import (
    ablation,
    balance,
    comparison,
    controller,
    energy_rho,
    energy_shards,
    epochs,
    forgetting,
    linearity,
    partitions,
    policies,
    policy_map,
    pruning,
    rsn_memory,
    rsn_rho,
    rsn_rounds,
    rsn_shards,
    sc_function,
    shards,
)
from cause.lab.reproduce.figures.base import Figure

_ALL = (
    linearity, pruning, shards, controller, sc_function, policies, epochs, rsn_rounds, rsn_memory, rsn_rho, rsn_shards,
    energy_shards, energy_rho, forgetting, partitions, comparison, ablation, balance,
    policy_map,
)  # fmt: skip

FIGURES: Registry[Figure] = Registry("table or figure", {module.FIGURE.name: module.FIGURE for module in _ALL})

__all__ = ["FIGURES", "Figure"]
