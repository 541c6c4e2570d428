"""CountingSums, for simulations of the additive law: its state is the number of samples, which is a sum."""

from typing import Any, NoReturn

from cause.common.hashing import digest
from cause.engine.samples import Piece, Upload
from cause.engine.summing import SummingLearner
from cause.errors import LearnerError


class CountingSums(SummingLearner):
    """A learner whose state is the number of samples, in a list of one.

    Parameters
    ----------
    sub_model_bytes
        The size that the state is counted with.

    Examples
    --------
    >>> from cause.engine.samples import Part, TraceUpload
    >>> learner, upload = CountingSums(), TraceUpload("u7", 1, (Part(31),))
    >>> state = learner.empty()
    >>> learner.add(state, Piece(upload, range(31)))
    >>> learner.subtract(state, Piece(upload, range(5)))
    >>> learner.encode(state)
    b'26'
    """

    recipe_digest = digest("counting sums")
    environment = "counting"
    most_samples = 2**63 - 1
    recorded_bytes = 1

    def __init__(self, sub_model_bytes: int = 1) -> None:
        self._sub_model_bytes = sub_model_bytes

    @property
    def sub_model_bytes(self) -> int:
        """Size of the state, as it was given."""
        return self._sub_model_bytes

    def check(self, upload: Upload) -> None:
        """Accept every upload."""

    def empty(self) -> list[int]:
        """Return the count of no samples."""
        return [0]

    def add(self, state: list[int], piece: Piece) -> None:
        """Add the number of these samples to the count."""
        state[0] += len(piece.positions)

    def subtract(self, state: list[int], piece: Piece) -> None:
        """Subtract the number of these samples from the count."""
        state[0] -= len(piece.positions)

    def encode(self, state: list[int]) -> bytes:
        """Return the count as decimal digits."""
        return b"%d" % state[0]

    def decode(self, blob: bytes) -> list[int]:
        """Return the count of decimal digits."""
        return [int(blob)]

    def predictor(self, state: Any) -> NoReturn:
        """Raise a `LearnerError`: a count predicts nothing."""
        raise LearnerError("the counting learner only counts: it cannot predict")
