"""PlaceholderLearner stands for a learner whose library is not imported, in commands that only read a home."""

from typing import Any, NoReturn

from cause.engine.learner import Learner
from cause.engine.samples import Upload
from cause.errors import LearnerError


class PlaceholderLearner(Learner):
    """A learner that has a size and a digest, but cannot train or predict.

    Commands that only show a home use it, because importing torch takes longer than everything else that they do.

    Parameters
    ----------
    recipe_digest, sub_model_bytes
        As the home recorded them.

    Examples
    --------
    >>> PlaceholderLearner(bytes(32), 1_000).sub_model_bytes
    1000
    """

    environment = ""

    def __init__(self, recipe_digest: bytes, sub_model_bytes: int) -> None:
        self._recipe_digest, self._sub_model_bytes = recipe_digest, sub_model_bytes

    @property
    def recipe_digest(self) -> bytes:
        """Digest of the recipe, as the home recorded it."""
        return self._recipe_digest

    @property
    def sub_model_bytes(self) -> int:
        """Size of one sub-model, as the home recorded it."""
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
        raise LearnerError(
            "this device was opened for reading without its learner: open it with Cause(folder) to train or predict"
        )
