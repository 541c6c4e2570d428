"""A device that trains on workers of a cluster until it is killed, as a program."""

import sys
import threading

from tests.device.homes import learn, opened
from tests.executors.cluster.local_actor import LocalCluster
from tests.executors.worker_learners import Held
from tests.waiting import wait_until

LEASE_S = 3.0


def main(home: str, folder: str) -> None:
    """Learn one round, and print the number of the worker's process once it has samples."""
    cluster = LocalCluster(lease=LEASE_S)
    device = opened(home, Held(folder), executor=cluster, shards=1)

    def announce() -> None:
        wait_until(lambda: any(worker.ready and worker.seen for worker in cluster._busy))
        print(cluster.actors[-1].process.pid, flush=True)

    threading.Thread(target=announce, daemon=True).start()
    learn(device, alice=20, bob=10)
    device.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
