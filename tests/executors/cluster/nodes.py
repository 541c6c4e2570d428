"""Three Ray nodes on this machine, with a token."""

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

TOKEN = secrets.token_hex(32)
"""One for all clusters of this process: Ray reads it once."""
MEMORY = {"object_store_memory": 80 << 20}


@contextmanager
def local_cluster(nodes: int = 3, cpus: int = 1) -> Iterator[str]:
    """Start nodes on this machine, and yield the address of their cluster; stop them afterwards."""
    with local_nodes(nodes, cpus) as cluster:
        yield cluster.address


@contextmanager
def local_nodes(nodes: int = 3, cpus: int = 1, **head: Any) -> Iterator[Any]:
    """Start nodes on this machine, and yield their `ray.cluster_utils.Cluster`; stop them afterwards.

    What is given by name are options of the head.
    """
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = TOKEN
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # Ray's own spelling; 15 waits for all other tests
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": cpus, "include_dashboard": False, **MEMORY, **head}
    )
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=cpus, **MEMORY)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    with local_cluster() as started:
        print("three nodes are up. In another terminal:")
        print(f"  export RAY_AUTH_MODE=token RAY_AUTH_TOKEN={os.environ['RAY_AUTH_TOKEN']}")
        print(f"  cause learn HOME data.npz --ray {started}")
        print("Ctrl-C ends them.", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
