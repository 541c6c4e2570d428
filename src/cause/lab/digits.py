"""scikit-learn's handwritten digits, distributed over users whose labels and sizes differ."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.lab import users as sharing

CLASSES, SHAPE = 10, (1, 8, 8)
BRIGHTEST = 16.0


@dataclass(frozen=True, eq=False)
class Shared(sharing.Shared):
    """A trace with its data, and a test set that is not uploaded."""

    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]


def load_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return 1,797 grey images of 8×8 pixels and their digits."""
    from sklearn.datasets import load_digits as load

    digits = load()
    return digits.images.astype(np.float32), digits.target.astype(np.int64)


def share_out(users: int = 30, rounds: int = 10, rho: float = 0.1, alpha: float = 0.5, seed: int = 0) -> Shared:
    """Draw users, rounds and requests over the digits; a fifth of the digits is kept for testing.

    The parameters are those of `cause.lab.users.share_out`.
    """
    x, y = load_digits()
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = order[: len(y) // 5], order[len(y) // 5 :]
    shared = sharing.share_out(
        x[train], y[train], classes=CLASSES, users=users, rounds=rounds, rho=rho, alpha=alpha, seed=seed
    )
    return Shared(shared.trace, shared.x, shared.y, shared.rows, x[test], y[test])
