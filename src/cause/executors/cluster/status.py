"""The workers of a cluster, of all devices that train on it, as Ray knows them."""

import os
import re
from collections.abc import Collection, Mapping
from secrets import token_hex
from typing import Any

from cause.executors.cluster.resources import node_capacity

_NAME = re.compile(r"cause-worker-[0-9a-f]+-lease-([0-9.]+)s(?:-of-([0-9]+))?")
_STARTING, _RUNNING = ("DEPENDENCIES_UNREADY", "PENDING_CREATION"), "ALIVE"


def worker_name(seconds: float) -> str:
    """Return a name for a new worker's actor, which tells its lease and the process of its device, and nothing else."""
    return f"cause-worker-{token_hex(8)}-lease-{seconds:g}s-of-{os.getpid()}"


def room_now(ray: Any, nodes: Collection[Mapping[str, Any]], options: Mapping[str, float]) -> int:
    """Return how many workers nodes have room for beside what runs on them now.

    Parameters
    ----------
    ray
        The module `ray`, which has joined the cluster.
    nodes
        The nodes that are alive.
    options
        What each worker needs, as Ray's options.
    """
    from ray._private import state  # there is no public call for the resources of a single node

    free = state.available_resources_per_node()
    return sum(node_capacity(free.get(node["NodeID"], {}), options) for node in nodes)


def workers_of(ray: Any) -> list[dict[str, Any]]:
    """Return the workers that run or start on a cluster.

    Parameters
    ----------
    ray
        The module `ray`, which has joined the cluster.

    Returns
    -------
    list of dict
        `node` (None while it starts), `pid`, `lease_s`, and `device`: the address and process of the device that it
        trains for, as Ray knows it.
    """
    from ray._private import state  # `ray.util.state` needs Ray's dashboard; the version of Ray is pinned

    jobs = {job["JobID"]: job for job in state.jobs()}
    workers = []
    for actor in state.actors().values():
        match = _NAME.fullmatch(actor["Name"] or "")
        if match is None or actor["State"] not in (_RUNNING, *_STARTING):
            continue
        running = actor["State"] == _RUNNING
        job = jobs.get(actor["JobID"], {})
        workers.append(
            {
                "node": actor["Address"]["NodeID"] if running else None,
                "pid": actor["Pid"] if running else None,
                "lease_s": float(match[1]),
                "device": f"{job.get('DriverIPAddress', '?')}, process {match[2] or job.get('DriverPid', '?')}",
            }
        )
    return sorted(workers, key=lambda worker: (worker["node"] or "", worker["pid"] or 0))
