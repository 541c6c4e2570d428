"""What a home remembers of its learner, for those who only look at the device."""

from typing import Any, NoReturn

from cause.engine.presets import System
from cause.engine.samples import Upload
from cause.errors import LearnerError


class RecordedLearner:
    """Stands for a learner without importing what it learns with, which takes longer than all else a look takes.

    >>> RecordedLearner(bytes(32), 1_000).sub_model_bytes
    1000
    """

    environment = ""
    classes = None

    def __init__(self, recipe_digest: bytes, sub_model_bytes: int) -> None:
        self.recipe_digest, self.sub_model_bytes = recipe_digest, sub_model_bytes

    def composed(self, system: System) -> "RecordedLearner":
        return self

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

    def stored_bytes(self, blob: bytes) -> int:
        return len(blob)

    def _refuse(self) -> NoReturn:
        raise LearnerError("this device was opened without its learner, to be looked at: open it as usual")
