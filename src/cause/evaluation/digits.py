"""Users with real data: scikit-learn's handwritten digits, shared out so that labels and sizes differ by user."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.arrays import TraceData
from cause.samples import Part, TraceUpload
from cause.trace import Add, Round, Trace
from cause.workload import ask

CLASSES, SHAPE = 10, (1, 8, 8)
BRIGHTEST = 16.0


@dataclass(frozen=True)
class Shared:
    """A trace with the data behind it, and a test set that nobody uploads."""

    trace: Trace
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    rows: dict[tuple[str, int], NDArray[np.int64]]  # of each upload, in the order of its positions
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]

    def uploads(self, round_: Round) -> list[TraceData]:
        """A round's uploads with their data."""
        return [self._with_data(upload) for upload in round_.uploads()]

    def _with_data(self, upload: TraceUpload) -> TraceData:
        rows = self.rows[upload.user, upload.round]
        return TraceData(upload, self.x[rows], self.y[rows])


def load_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """1,797 grey images of 8×8 pixels, and which digit each shows."""
    from sklearn.datasets import load_digits as load

    digits = load()
    return digits.images.astype(np.float32), digits.target.astype(np.int64)


def share_out(users: int = 30, rounds: int = 10, rho: float = 0.1, alpha: float = 0.5, seed: int = 0) -> Shared:
    """Draw users, rounds and requests over the digits; a fifth of them is kept for testing."""
    rng = np.random.default_rng(seed)
    x, y = load_digits()
    order = rng.permutation(len(y))
    test, train = order[: len(y) // 5], order[len(y) // 5 :]
    tastes = rng.dirichlet(np.full(CLASSES, alpha), size=users) * rng.integers(10, 10_001, size=users)[:, None]
    owner = np.array([rng.choice(users, p=tastes[:, y[row]] / tastes[:, y[row]].sum()) for row in train])
    when = rng.integers(1, rounds + 1, size=len(train))
    rows: dict[tuple[str, int], NDArray[np.int64]] = {}
    left: list[dict[int, int]] = [{} for _ in range(users)]
    made = []
    for number in range(1, rounds + 1):
        round_ = Round(number)
        for user in range(users):
            own = train[(owner == user) & (when == number)]
            if len(own):
                own = own[np.argsort(y[own], kind="stable")]
                labels = tuple((int(c), int(n)) for c, n in zip(*np.unique(y[own], return_counts=True), strict=True))
                round_.adds.append(Add(f"u{user + 1}", Part(len(own), labels)))
                rows[f"u{user + 1}", number] = own
                left[user][number] = len(own)
        for user in np.flatnonzero(rng.random(users) < rho).tolist():
            if left[user]:
                round_.forgets.append(ask(f"u{user + 1}", left[user], rng))
        made.append(round_)
    return Shared(Trace(made), x, y, rows, x[test], y[test])
