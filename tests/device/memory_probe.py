"""A process whose memory is read by a test. It is given rows in files, and keeps no copy of its own.

    python -m tests.device.memory_probe FOLDER MODEL WORKERS REPAIR

Rows are mapped from files, so that every copy in the memory of the process was made by the device. After
each step it says so in a line and waits for the next line.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from cause.device.device import Cause
from tests.executors.cluster.local_actor import LocalCluster

CLASSES, FEATURES = 4, 64
KEY = {"env": "CAUSE_TEST_KEY"}


def learner(model: str):
    if model == "torch":
        from cause.learners.torch import TorchLearner

        return TorchLearner("mlp", classes=CLASSES, shape=(FEATURES,), epochs=2, batch_size=32)
    from sklearn.naive_bayes import GaussianNB

    from cause.learners.sklearn import SklearnLearner

    return SklearnLearner(GaussianNB(), classes=CLASSES, features=FEATURES)


def upload(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.load(folder / f"{name}.{part}.npy", mmap_mode="r") for part in ("x", "y"))
    return x, np.array(y)


def main(folder: Path, model: str, workers: int, repair: str) -> None:
    def say(step: str) -> None:
        print(step, flush=True)
        sys.stdin.readline()

    settings: dict[str, Any] = {"system": "frugal", "shards": 2, "slots": 8}
    # a negative number: workers behind the connections of a cluster
    settings |= {"workers": workers} if workers >= 0 else {"executor": LocalCluster(-workers)}
    with Cause(folder / "home", learner=learner(model), key=KEY, **settings) as device:
        device.learn({"alice": upload(folder, "alice"), "carol": upload(folder, "carol")})
        questions = np.random.default_rng(1).normal(size=(8, FEATURES)).astype(np.float32)
        for _ in range(200):
            device.predict(questions)
        device.learn({"bob": upload(folder, "bob")})
        say("learned")
        device.forget("alice", repair=repair)
        say("forgot")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
