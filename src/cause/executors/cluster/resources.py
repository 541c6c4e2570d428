"""What each worker of a cluster needs."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cause.errors import InputError

RESOURCES = {"cpus": "num_cpus", "gpus": "num_gpus", "memory": "memory"}
"""What a worker may ask for, and the name of the option in Ray."""
NAMES = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
"""The names of what a node has, by option."""

LEAST, MOST = 1e-4, 1e14
"""Ray keeps ten-thousandths in 64 bits: with more than about 9e14, a worker would be placed anywhere."""


def actor_options(per_worker: Mapping[str, float]) -> dict[str, float]:
    """Return Ray's options for what a worker needs.

    >>> actor_options({"cpus": 1, "gpus": 0.1})
    {'num_cpus': 1, 'num_gpus': 0.1}
    """
    for name, value in per_worker.items():
        if name not in RESOURCES:
            raise InputError(f"a worker has no resource {name!r}: one of {', '.join(RESOURCES)}")
        if value and not LEAST <= value <= MOST:
            raise InputError(f"a worker cannot need {value:g} {name}: from {LEAST:g} to {MOST:g}, or 0")
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
        if match[1] in needs:
            raise InputError(f"what a worker needs names {match[1]} twice: {text!r}")
        needs[match[1]] = float(match[2])
    actor_options(needs)
    return needs


def cluster_capacity(nodes: Iterable[Mapping[str, Any]], options: Mapping[str, float]) -> int:
    """Return how many workers nodes can hold together if nothing else runs on them."""
    return sum(node_capacity(node["Resources"], options) for node in nodes)


def node_capacity(resources: Mapping[str, float], options: Mapping[str, float]) -> int:
    """Return how many workers fit into what a node has.

    >>> node_capacity({"CPU": 4.0, "GPU": 1.0}, {"num_cpus": 1, "num_gpus": 0.5})
    2
    """
    needs = [(NAMES[option], value) for option, value in options.items() if value]
    return min((int(resources.get(name, 0) // value) for name, value in needs), default=1)


def lacking(nodes: Iterable[Mapping[str, Any]], options: Mapping[str, float]) -> str:
    """Return the sentence for a cluster none of whose nodes can hold a worker.

    >>> lacking([{"Resources": {"CPU": 1.0}}], {"num_cpus": 2, "num_gpus": 0.5})
    'no node of the cluster can hold a worker, which needs 2 CPU, 0.5 GPU: nodes have at most 1 CPU, 0 GPU'
    """
    needs = {NAMES[option]: value for option, value in options.items() if value}
    most = {name: max((node["Resources"].get(name, 0) for node in nodes), default=0) for name in needs}
    needed, there = (", ".join(f"{value:g} {name}" for name, value in part.items()) for part in (needs, most))
    return f"no node of the cluster can hold a worker, which needs {needed}: nodes have at most {there}"
