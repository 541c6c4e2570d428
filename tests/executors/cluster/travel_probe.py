"""A device whose samples are on their way to a worker when they are forgotten. A test reads its memory meanwhile.

    python -m tests.executors.cluster.travel_probe FOLDER PART

PART of the bytes has passed the link when it says so: more than 1 means that the sub-model is on its way back, which
holds the samples here. The rows are mapped from a file, so that every copy in the memory was made by the device. After
each step it says so in a line and waits for the next line.
"""

import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from cause.device.device import Cause
from tests.executors.cluster.slow_link import SlowCluster
from tests.executors.worker_learners import Echoing, Endless
from tests.waiting import wait_until

RATE, LEASE_S, ROW = 400_000, 2.0, 16_000


def say(step: str) -> None:
    """Say what was done, and wait."""
    print(step, flush=True)
    sys.stdin.readline()


def main(folder: Path, part: float) -> None:
    """Learn, forget while samples or a sub-model travel, and say when."""
    x = np.memmap(folder / "rows", dtype=np.uint8, mode="r").reshape(-1, ROW)
    learner = Endless() if part < 1 else Echoing()
    with closing(SlowCluster(RATE, LEASE_S)) as cluster:
        cluster.environment = learner.environment
        settings: dict[str, Any] = {
            "key": {"env": "CAUSE_TEST_KEY"},
            "system": "frugal",
            "shards": 1,
            "slots": 4,
            "executor": cluster,
        }
        with Cause(folder / "home", learner=learner, **settings) as device:
            upload = {"alice": (x, np.zeros(len(x), dtype=np.int64))}
            training = threading.Thread(target=device.learn, args=(upload,))
            training.start()
            del upload
            wait_until(lambda: cluster.link.passed > part * x.nbytes, 60)
            say("travelling")
            device.forget("alice", repair="later")
            say("forgot")
            training.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
