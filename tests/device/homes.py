"""Devices with a home, small ones."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.learners.sklearn import SklearnLearner
from tests.device import new_homes

CLASSES, FEATURES = 4, 6
MASTER = "11" * 32
KEY = {"env": "CAUSE_TEST_KEY"}


def bayes():
    from sklearn.naive_bayes import GaussianNB

    return SklearnLearner(GaussianNB(), classes=CLASSES, features=FEATURES)


def adding():
    """An additive learner that keeps inputs, so that samples can be recognised."""
    from cause.learners.additive import AdditiveLearner

    return AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES, keep="samples")


LEARNERS: dict[str, Any] = {"bayes": (bayes, "frugal", 2), "additive": (adding, "additive", 1)}
"""Makes a learner; its system and shards."""


def samples(user: str, round_: int, count: int):
    """Return the samples that a user uploads in a round, the same at each call."""
    draw = np.random.default_rng([ord(c) for c in user] + [round_, count])
    return draw.normal(size=(count, FEATURES)).astype(np.float32), draw.integers(CLASSES, size=count)


def opened(folder, learner=None, kind: Any = "bayes", **settings) -> Cause:
    """A home in this folder, made if it is not there."""
    make, system, shards = LEARNERS[kind]
    settings = {"system": system, "shards": shards, "slots": 8, **settings}
    if learner is None:
        new_homes.copy(Path(folder), kind, settings)
    return Cause(folder, learner=learner or make(), key=KEY, **settings)


def fixed_permutation(count: int):
    """Instead of a random order of positions, one that is the same each time and has nothing to do with the samples."""
    return np.random.default_rng(count).permutation(count)


def learn(device, **counts: int):
    """A round: users and how many samples each uploads."""
    t = device.ledger.round + 1
    given = {user: samples(user, t, count) for user, count in counts.items()}
    if device.home is not None:
        return device.learn(given, empty=True)
    # positions as a home would give them, so that a request by position or count means the same samples
    return device.learn([ArrayUpload(u, t, x, y).shuffled(fixed_permutation(len(y))) for u, (x, y) in given.items()])


def killed(work) -> None:
    """Run something in a forked process that must end by SIGKILL; `work` does that itself."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    _, how = os.waitpid(child, 0)
    assert os.WIFSIGNALED(how), "it went on to its end"
    assert os.WTERMSIG(how) == signal.SIGKILL


ERASE: dict[str, Any] = {"repair": "later", "together": False, "lenient": True}
"""Arguments of `serve` as the service uses them: requests one by one, and no error for a user without samples."""
