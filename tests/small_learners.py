"""Learners whose state shows what it was made from."""

import json
import os
import signal

import numpy as np

from cause.common.hashing import digest
from cause.engine.learner import Learner
from cause.engine.samples import Lesson

Sample = tuple[str, int, int]


def ids(pieces) -> set[Sample]:
    """The samples of some pieces, one by one."""
    return {(piece.upload.user, piece.upload.round, int(p)) for piece in pieces for p in piece.positions}


class RememberingLearner(Learner):
    """Its state is the set of samples it has seen; it also keeps a diary of how each training began."""

    recipe_digest = digest("remembering")
    environment = "test"
    sub_model_bytes = 100

    def __init__(self, size=None):
        self._size = size or (lambda state: 100)
        self.diary: list[tuple[frozenset[Sample] | None, Lesson]] = []

    def check(self, upload):
        pass

    def train(self, parent, lesson, seed, tick=None):
        self.diary.append((parent, lesson))
        assert sum(len(piece.positions) for piece in lesson.pieces) == lesson.count > 0
        return frozenset(ids(lesson.pieces) | ids(lesson.rehearsed) | (parent or set()))

    def predict(self, state, x):
        raise AssertionError("not asked for")

    def encode(self, state):
        return json.dumps(sorted(state)).encode()

    def decode(self, blob):
        return frozenset(tuple(sample) for sample in json.loads(blob))

    def stored_bytes(self, blob):
        return self._size(self.decode(blob))


class FrequencyLearner(Learner):
    """A real, tiny learner: it predicts each class as often as it saw it."""

    environment = "test"
    sub_model_bytes = 1
    recipe_digest, classes = b"", None  # set when it is made

    def __init__(self, classes=3, flavour="plain"):
        self.classes = classes
        self.recipe_digest = digest("frequency", classes, flavour)

    def check(self, upload):
        pass

    def train(self, parent, lesson, seed, tick=None):
        counts = np.zeros(self.classes) if parent is None else parent.copy()
        for upload, positions in lesson.pieces:
            counts += np.bincount(upload.labels(positions), minlength=self.classes)
        return counts

    def predict(self, state, x):
        return np.tile(state / state.sum(), (len(x), 1))

    def encode(self, state):
        return state.tobytes()

    def decode(self, blob):
        return np.frombuffer(blob)

    def stored_bytes(self, blob):
        return 1


POISON, SALT, PEPPER = 666.0, 13.0, 14.0


class FragileLearner(Learner):
    """Its state is a digest of all it was made from. It fails on some samples alone, and on others only together."""

    environment = "test"
    sub_model_bytes = 32
    recipe_digest, classes = b"", None  # set when it is made

    def __init__(self, classes=3, raises=ValueError):
        self.classes, self.raises = classes, raises
        self.recipe_digest = digest("fragile", classes)
        self.trained = 0

    def check(self, upload):
        pass

    def train(self, parent, lesson, seed, tick=None):
        self.trained += 1
        pieces = [*lesson.pieces, *lesson.rehearsed]
        x = np.concatenate([upload.arrays(positions)[0].reshape(len(positions), -1) for upload, positions in pieces])
        if (x == POISON).any():
            raise self.raises("there is poison in it")
        if (x == SALT).any() and (x == PEPPER).any():
            raise self.raises("salt and pepper")
        names = [upload.names(positions) for upload, positions in pieces]
        return digest(parent or b"scratch", seed, *sorted(names))

    def predict(self, state, x):
        return np.tile(np.frombuffer(state[: self.classes], dtype=np.uint8) / 255, (len(x), 1))

    def encode(self, state):
        return state

    def decode(self, blob):
        return blob


class DeadlyLearner(FragileLearner):
    """Kills the process in which it is to train."""

    def train(self, parent, lesson, seed, tick=None):
        os.kill(os.getpid(), signal.SIGKILL)
