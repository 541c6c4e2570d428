"""Two environments on one machine: a learner whose bits depend on a variable of its process, and executors for it.

The learner adds up inputs in the precision that the variable names, so sums in float32 and in float64 have other bits.
`Machines` trains in this process and sets the variable for each task, as if it had gone to a machine of that precision.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from cause.common.hashing import digest
from cause.engine.executor import OnEpoch, ShardWork
from cause.engine.learner import Learner
from cause.engine.samples import arrays_of
from cause.executors import InProcess

PRECISION = "CAUSE_TEST_PRECISION"
HERE, OTHER = "sums in float64", "sums in float32"
CLASSES, FEATURES = 3, 4


class PrecisionLearner(Learner):
    """Sums of the inputs of each class, in the precision of the machine."""

    recipe_digest, classes = digest("precision"), CLASSES
    sub_model_bytes = 8 * CLASSES * FEATURES

    @property
    def environment(self):
        return f"sums in {os.environ.get(PRECISION, 'float64')}"

    def check(self, upload):
        pass

    def train(self, parent, lesson, seed, tick=lambda *_: None):
        dtype = self.environment.removeprefix("sums in ")
        sums = np.zeros((CLASSES, FEATURES), dtype) if parent is None else parent.astype(dtype)
        arrays = [arrays_of(*piece) for piece in lesson.pieces]
        x, y = (np.concatenate(parts) for parts in zip(*arrays, strict=True))
        for row in np.lexsort((*x.T, y)):  # the order of samples must not matter
            sums[y[row]] += x[row].astype(dtype) / np.asarray(3, dtype)
        tick(1, 1)
        return sums.astype(np.float64)

    def predict(self, state, x):
        scores = np.exp(np.asarray(x) @ state.T / 10)
        return scores / scores.sum(axis=1, keepdims=True)

    def encode(self, state):
        return state.tobytes()

    def decode(self, blob):
        return np.frombuffer(blob).reshape(CLASSES, FEATURES).copy()


@contextmanager
def machine(environment: str) -> Iterator[None]:
    """Be a machine of this environment meanwhile."""
    before = os.environ.get(PRECISION)
    os.environ[PRECISION] = environment.removeprefix("sums in ")
    try:
        yield
    finally:
        del os.environ[PRECISION]
        if before is not None:
            os.environ[PRECISION] = before


class Machines(InProcess):
    """Trains each task on a machine of its environment."""

    def __init__(self, **room: int) -> None:
        super().__init__()
        self.room = {f"sums in {precision}": workers for precision, workers in room.items()}
        self.trained = list[tuple[int, str]]()

    def environments(self, learner: Learner) -> dict[str, int]:
        return self.room

    def train(
        self, learner: Learner, work: Sequence[ShardWork], on_epoch: OnEpoch
    ) -> Generator[bytes | None, None, None]:
        for shard in work:
            environment = self.place(shard)
            assert environment in self.room, "there is no such machine"
            with machine(environment):
                blobs = list(super().train(learner, [shard], on_epoch))
            self.trained.append((shard.shard, environment))
            yield from blobs

    def place(self, shard: ShardWork) -> str:
        """The environment of the machine that a shard goes to."""
        assert shard.tasks[0].environment is not None
        return shard.tasks[0].environment


def uploads(round_: int, users: Sequence[str] = ("ann", "bea", "cy", "dan", "eve", "fay", "gus", "hal")):
    """Inputs and labels of one round, the same whenever they are asked for."""
    found = {}
    for user in users:
        draw = np.random.default_rng([round_, *user.encode()])
        found[user] = draw.normal(size=(7, FEATURES)), draw.integers(CLASSES, size=7)
    return found
