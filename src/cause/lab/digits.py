"""Users with real data: scikit-learn's handwritten digits, shared out so that labels and sizes differ by user."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.lab import users as sharing

CLASSES, SHAPE = 10, (1, 8, 8)
BRIGHTEST = 16.0


@dataclass(frozen=True, eq=False)
class Shared(sharing.Shared):
    """A trace with the data behind it, and a test set that nobody uploads."""

    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]


def load_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """1,797 grey images of 8×8 pixels, and which digit each shows."""
    from sklearn.datasets import load_digits as load

    digits = load()
    return digits.images.astype(np.float32), digits.target.astype(np.int64)


def share_out(users: int = 30, rounds: int = 10, rho: float = 0.1, alpha: float = 0.5, seed: int = 0) -> Shared:
    """Draw users, rounds and requests over the digits; a fifth of them is kept for testing."""
    x, y = load_digits()
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = order[: len(y) // 5], order[len(y) // 5 :]
    made = sharing.share_out(
        x[train], y[train], classes=CLASSES, users=users, rounds=rounds, rho=rho, alpha=alpha, seed=seed
    )
    return Shared(made.trace, made.x, made.y, made.rows, x[test], y[test])
