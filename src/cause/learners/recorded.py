"""What a home remembers of its learner, for those who only look at the device."""

from typing import Any, NoReturn

from cause.engine.learner import Learner
from cause.engine.samples import Upload
from cause.errors import LearnerError


class RecordedLearner(Learner):
    """Stands for a learner without importing what it learns with, which takes longer than all else a look takes.

    >>> RecordedLearner(bytes(32), 1_000).sub_model_bytes
    1000
    """

    environment = ""

    def __init__(self, recipe_digest: bytes, sub_model_bytes: int) -> None:
        self._recipe_digest, self._sub_model_bytes = recipe_digest, sub_model_bytes

    @property
    def recipe_digest(self) -> bytes:
        return self._recipe_digest

    @property
    def sub_model_bytes(self) -> int:
        return self._sub_model_bytes

    def check(self, upload: Upload) -> None:
        self._refuse()

    def train(self, *args: Any) -> NoReturn:
        self._refuse()

    def predict(self, state: Any, x: Any) -> NoReturn:
        self._refuse()

    def encode(self, state: Any) -> NoReturn:
        self._refuse()

    def decode(self, blob: bytes) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise LearnerError("this device was opened without its learner, to be looked at: open it as usual")
