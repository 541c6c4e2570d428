"""What each worker of a cluster needs."""

import re
from collections.abc import Mapping
from typing import Any

from cause.errors import InputError

RESOURCES = {"cpus": "num_cpus", "gpus": "num_gpus", "memory": "memory"}
"""What a worker may ask for, and its name in Ray."""

MOST = 1e14
"""Ray keeps ten-thousandths in 64 bits: with more than about 9e14, a worker would be placed anywhere."""


def actor_options(per_worker: Mapping[str, float]) -> dict[str, float]:
    """Return Ray's options for what a worker needs.

    >>> actor_options({"cpus": 1, "gpus": 0.1})
    {'num_cpus': 1, 'num_gpus': 0.1}
    """
    for name, value in per_worker.items():
        if name not in RESOURCES:
            raise InputError(f"a worker has no resource {name!r}: one of {', '.join(RESOURCES)}")
        if not 0 <= value <= MOST:
            raise InputError(f"a worker cannot need {value:g} {name}")
    return {RESOURCES[name]: value for name, value in per_worker.items()}


def parse_per_worker(text: str) -> dict[str, float]:
    """Return what each worker needs from a text such as `cpus=1,gpus=0.1,memory=2000000000`.

    >>> parse_per_worker("cpus=1,gpus=0.1")
    {'cpus': 1.0, 'gpus': 0.1}
    """
    needs: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([a-z]+)\s*=\s*([0-9]+(?:\.[0-9]+)?)\s*", part)
        if match is None:
            raise InputError(f"what a worker needs is written as cpus=1,gpus=0.1, not {text!r}")
        needs[match[1]] = float(match[2])
    actor_options(needs)
    return needs


def cluster_capacity(nodes: list[dict[str, Any]], options: Mapping[str, float]) -> int:
    """Return how many workers the nodes have room for, one at least."""
    return max(1, sum(node_capacity(node, options) for node in nodes))


def node_capacity(node: Mapping[str, Any], options: Mapping[str, float]) -> int:
    """Return how many workers a node has room for."""
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    needs = [(names[option], value) for option, value in options.items() if value]
    return min((int(node["Resources"].get(name, 0) // value) for name, value in needs), default=1)
