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
    maps,
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

_FIGURES = (*(module.FIGURE for module in _ALL), maps.FIBOR, maps.CONTROLLER)

FIGURES: Registry[Figure] = Registry("table or figure", {figure.name: figure for figure in _FIGURES})

__all__ = ["FIGURES", "Figure"]
