"""`cause cluster`."""

from typing import Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json
from cause.common.registry import check_choice


def cluster(
    action: Annotated[str, typer.Argument(help="What to do: status.", show_default=False)],
    ray: Annotated[str, typer.Option("--ray", metavar="ADDRESS", help="The cluster: HOST:PORT, or auto.")] = "auto",
    per_worker: h.PerWorker = None,
    json: o.AsJson = False,
) -> None:
    """Show the nodes of a Ray cluster, the workers that train on them with their leases, and how many have room."""
    check_choice("action", action, ("status",))
    h.need("cryptography", "home")
    from cause.executors.cluster.connection import is_here, join, require_protection
    from cause.executors.cluster.resources import actor_options, cluster_capacity, lacking, parse_per_worker
    from cause.executors.cluster.status import room_now, workers_of

    options = actor_options({"cpus": 1} if per_worker is None else parse_per_worker(per_worker))
    connected = join(ray)
    nodes = sorted(connected.nodes(), key=lambda node: (not node["Alive"], node["NodeManagerAddress"], node["NodeID"]))
    alive = [node for node in nodes if node["Alive"]]
    addresses = [node["NodeManagerAddress"] for node in alive]
    require_protection(ray, addresses)
    result: dict[str, Any] = {
        "nodes": [
            {
                "id": node["NodeID"],
                "address": node["NodeManagerAddress"],
                "alive": node["Alive"],
                "cpus": node["Resources"].get("CPU", 0.0),
                "gpus": node["Resources"].get("GPU", 0.0),
                "memory": int(node["Resources"].get("memory", 0)),
            }
            for node in nodes
        ],
        "room": room_now(connected, alive, options),
        "capacity": cluster_capacity(alive, options),
        "several_machines": not all(map(is_here, addresses)),
        "workers": workers_of(connected),
    }
    if json:
        print_json(result)
        return
    where = "several machines, with TLS and a token" if result["several_machines"] else "this machine"
    print(f"{len(alive)} nodes on {where}, with room for {result['room']} of {result['capacity']} workers")
    if not result["capacity"]:
        print(lacking(alive, options))
    for node in result["nodes"]:
        state = "" if node["alive"] else ", gone"
        gpus = f", {node['gpus']:g} GPUs" if node["gpus"] else ""
        memory = f"{node['memory'] / 2**30:.1f} GiB"
        print(f"  {node['id'][:8]} {node['address']}: {node['cpus']:g} CPUs{gpus}, {memory}{state}")
        for worker in result["workers"]:
            if worker["node"] == node["id"]:
                print(f"    worker {worker['pid']} of device {worker['device']}, lease {worker['lease_s']:g} s")
    starting = sum(worker["node"] is None for worker in result["workers"])
    if starting:
        print(f"workers that wait for room or start: {starting}")
