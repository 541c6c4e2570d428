"""Devices to look at: `cause serve` on the digits, in a process of its own."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from cause.client import Client
from cause.device.device import Cause
from cause.engine.learner import Learner
from cause.learners.sklearn import SklearnLearner
from cause.learners.torch import TorchLearner
from tests.device.homes import MASTER
from tests.service.services import WarmDaemon
from tests.waiting import wait_until

CLASSES, SHAPE = 10, (1, 8, 8)
ROUNDS = (
    {"ann": 40, "bob": 60, "cyd": 30},
    {"ann": 30, "bob": 20, "dan": 50},
    {"bob": 30, "cyd": 40, "dan": 20, "eve": 30},
)
Users = dict[str, int]


def part(start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Some of the digits."""
    x, y = load_digits(return_X_y=True)
    chosen = slice(start, start + count)
    return x[chosen].astype(np.float32).reshape(-1, *SHAPE), y[chosen].astype(np.int64)


def network(epochs: int = 3) -> Learner:
    return TorchLearner("mlp", classes=CLASSES, shape=SHAPE, epochs=epochs, lr=0.005, std=16.0)


def bayes() -> Learner:
    """Trained and checked in no time."""
    return SklearnLearner(GaussianNB(var_smoothing=0.01), classes=CLASSES, features=64)


class Device(WarmDaemon):
    """A home of three shards and eight slots that has seen some rounds; nothing is repaired before it is asked for."""

    def __init__(self, folder: Path, learner: Learner, rounds: Iterable[Users] = (), **settings: Any) -> None:
        os.environ["CAUSE_TEST_KEY"] = MASTER
        super().__init__(folder, repair="never")
        self.flat = isinstance(learner, SklearnLearner)
        self.used = 0
        made = {"system": "frugal", "shards": 3, "slots": 8, **settings}
        with Cause(folder, learner=learner, key={"env": "CAUSE_TEST_KEY"}, **made) as home:
            for users in rounds:
                home.learn({user: self.next(count) for user, count in users.items()})

    def next(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Digits that nobody has uploaded yet."""
        self.used += count
        return self.formed(*part(self.used - count, count))

    def formed(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (x.reshape(len(x), -1) if self.flat else x), y

    def evaluate(self) -> None:
        self.api.evaluate(*self.formed(*part(1400, 300)))

    def __enter__(self) -> Self:
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

    def learn(self, *rounds: Users) -> None:
        """Upload, close, and wait until it is trained."""
        for users in rounds:
            for user, count in users.items():
                self.api.upload(user, *self.next(count))
            self.api.close_round()
            self.settled()

    def settled(self, seconds: float = 60) -> None:
        wait_until(lambda: not any(shard["behind"] for shard in self.api.shards()), seconds, "nothing is trained")
