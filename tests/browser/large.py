"""A device at real size to look at: 16 shards, 30 rounds, 200 users, 500 receipts, over the last 40 days.

python -m tests.browser.large FOLDER makes such a home; the tests make one for all of them.
"""

import json
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from cause.device.device import Cause
from cause.device.store.clock import Clock
from cause.engine.requests import Request
from tests.browser.digits import Device, bayes, part
from tests.device.homes import MASTER

SHARDS, ROUNDS, USERS, RECEIPTS = 16, 30, 200, 500
SLOTS = 64
SETTINGS: dict[str, Any] = {"system": "frugal", "shards": SHARDS, "slots": SLOTS, "repair": "later"}
EACH = 5  # samples of a user in a round
DAY_S = 86_400.0
BEGIN_S = 40 * DAY_S
OPEN = 4
"""Erasures that wait for their repair at the end."""


@contextmanager
def clock(start: float):
    """Let homes go by a time that the test sets: `now[0]`."""
    now = [start]
    with patch.object(Clock, "now", lambda self: now[0]), patch.object(Clock, "doubt", lambda self: None):
        yield now


def make(folder: Path) -> None:
    """Make the home: rounds, evaluations, and erasures that are repaired a few at a time."""
    os.environ["CAUSE_TEST_KEY"] = MASTER
    x, y = (array.reshape(len(array), -1) if array.ndim > 2 else array for array in part(0, 1400))
    test_x, test_y = (array.reshape(len(array), -1) if array.ndim > 2 else array for array in part(1400, 300))
    draw = np.random.default_rng(7)
    users = [f"user-{number:03}" for number in range(USERS)]
    end = time.time()
    with (
        clock(end - BEGIN_S) as now,
        Cause(folder, learner=bayes(), key={"env": "CAUSE_TEST_KEY"}, **SETTINGS) as device,
    ):
        asked = 0
        erasures = RECEIPTS // 2
        for round_ in range(1, ROUNDS + 1):
            now[0] = end - BEGIN_S * (1 - round_ / (ROUNDS + 1))
            present = [user for number, user in enumerate(users) if round_ == 1 or (number + round_) % 2]
            rows = {user: draw.integers(len(y), size=EACH) for user in present}
            device.learn({user: (x[chosen], y[chosen]) for user, chosen in rows.items()})
            evaluate(device, now[0], round_, test_x, test_y)
            while asked < erasures * round_ // ROUNDS:
                now[0] += 600
                last = asked >= erasures - OPEN
                user = users[int(draw.integers(USERS))]
                while not (held := device.ledger.rounds_of(user)):
                    user = users[int(draw.integers(USERS))]
                of_round = held[int(draw.integers(len(held)))]
                device.serve([Request(user, (of_round,), 1)], repair="later", together=False)
                asked += 1
                if (not last and asked % 5 == 0) or asked == erasures - OPEN:
                    now[0] += 300
                    device.repair()
            evaluate(device, now[0] + 60, round_, test_x, test_y)


def evaluate(device: Cause, at: float, round_: int, x: np.ndarray, y: np.ndarray) -> None:
    """Measure the accuracy, and keep it as the service does."""
    right = np.asarray(device.predict(x)) == y
    heads = device.heads()
    fields = {
        "samples": len(y), "accuracy": float(right.mean()), "voters": len(heads),
        "classes": [
            {"label": int(label), "samples": int((y == label).sum()), "accuracy": float(right[y == label].mean())}
            for label in np.unique(y)
        ],
        "heads": [{"shard": shard, "segment": list(head.key), "accuracy": 0.5} for shard, head in heads.items()],
    }  # fmt: skip
    assert device.home is not None
    with device.home.database.transaction():
        device.home.queries.add_evaluation(at, round_, json.dumps(fields))


class LargeDevice(Device):
    """The home at real size, served; repairs begin when they are asked for."""

    def __init__(self, folder: Path) -> None:
        if not folder.exists():
            make(folder)
        super().__init__(folder, bayes(), **SETTINGS)


if __name__ == "__main__":
    start = time.perf_counter()
    make(Path(sys.argv[1]))
    print(f"{time.perf_counter() - start:.0f} s")
