"""A device to look at: `cause serve` on the digits, with a small real network, in a process of its own."""

import os
import time
from pathlib import Path

import httpx
import numpy as np
from sklearn.datasets import load_digits

from cause.client import Client
from cause.learners.torch import TorchLearner
from cause.system import Cause
from tests.home.homes import MASTER
from tests.serve.services import Daemon

CLASSES, SHAPE = 10, (1, 8, 8)
ROUNDS = (
    {"ann": 40, "bob": 60, "cyd": 30},
    {"ann": 30, "bob": 20, "dan": 50},
    {"bob": 30, "cyd": 40, "dan": 20, "eve": 30},
)


def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return x.astype(np.float32).reshape(-1, *SHAPE), y.astype(np.int64)


def part(start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = digits()
    return x[start : start + count], y[start : start + count]


class Device(Daemon):
    """A home of three shards and eight slots; nothing is repaired before it is asked for."""

    def __init__(self, folder: Path, *, epochs: int = 3, shards: int = 3, **options: str) -> None:
        os.environ["CAUSE_TEST_KEY"] = MASTER
        if not folder.exists():
            learner = TorchLearner("mlp", classes=CLASSES, shape=SHAPE, epochs=epochs, lr=0.005, std=16.0)
            Cause(
                folder, learner=learner, key={"env": "CAUSE_TEST_KEY"}, system="frugal", shards=shards, slots=8
            ).close()
        super().__init__(folder, **{"repair": "never", **options})
        self.used = 0

    def __enter__(self) -> "Device":
        self.start()
        self.secret = self.token("operator")
        self.api: Client = self.client(self.secret)
        return self

    def __exit__(self, *error) -> None:
        self.api.close()
        if self.process is not None and self.process.poll() is None:
            self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: dict | None = None) -> dict:
        """A route that the client has no method for."""
        headers = {"Authorization": f"Bearer {self.secret}"}
        answer = httpx.request(method, self.url + path, json=body, headers=headers, timeout=30, trust_env=False)
        return answer.raise_for_status().json()

    def plan(self, user: str, **body) -> dict:
        return self.ask("POST", f"v1/users/{user}/erasures/plan", body)

    def learn(self, *rounds: dict[str, int], evaluate: bool = False) -> None:
        """Upload, close, and wait until it is trained."""
        for users in rounds:
            for user, count in users.items():
                self.api.upload(user, *part(self.used, count))
                self.used += count
            self.api.close_round()
            self.settled()
            if evaluate:
                self.api.evaluate(*part(1400, 300))

    def settled(self, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while any(shard["behind"] for shard in self.api.shards()):
            assert time.monotonic() < end, "nothing is trained"
            time.sleep(0.05)
