"""Data of users who differ, made of scikit-learn's digits: writers' images and a table of sensors' readings.

There are no real users in it. Each has some number of samples and an uneven share of the labels; a writer has a slant,
a size, a place and a stroke of their own, a phone's sensors each a gain and an offset of their own. Copies of one digit
by several users are all in the training set or all in the test set.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.datasets import load_digits

SENSORS = 43
TEST = 0.3

Uploads = dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]]


@dataclass(frozen=True)
class People:
    """Samples, whose each is, and which of them are for the test."""

    name: str
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    users: NDArray[np.str_]
    test: NDArray[np.bool_]

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def rounds(self, count: int, seed: int) -> list[Uploads]:
        """The training samples as uploads: a user is there in about every second round."""
        draw, found = np.random.default_rng([seed, 1]), [{} for _ in range(count)]
        for user in np.unique(self.users):
            own = draw.permutation(np.flatnonzero((self.users == user) & ~self.test))
            there = np.flatnonzero(draw.random(count) < 0.5)
            there = there if len(there) else draw.integers(count, size=1)
            for t, part in zip(there, np.array_split(own, len(there)), strict=True):
                if len(part):
                    found[t][str(user)] = self.x[part], self.y[part]
        return found


def writers(seed: int, users: int = 120, copies: int = 4) -> People:
    """Grey images of 8×8."""
    draw = np.random.default_rng([seed, 2])
    x, y, owner, test = _shared(draw, users, copies)
    angle, shear, size = draw.normal(0, 0.25, users), draw.normal(0, 0.2, users), draw.normal(1, 0.1, users)
    place, stroke, ink = draw.normal(0, 0.6, (users, 2)), draw.lognormal(0, 0.35, users), draw.normal(1, 0.2, users)
    images = np.empty((len(y), 1, 8, 8), np.float32)
    for row, user in enumerate(owner):
        cos, sin = np.cos(angle[user]), np.sin(angle[user])
        turn = np.array([[cos, -sin], [sin, cos]]) @ np.array([[1, shear[user]], [0, 1]]) * size[user].clip(0.7, 1.4)
        shift = np.full(2, 3.5) - turn @ np.full(2, 3.5) + place[user] + draw.normal(0, 0.2, 2)
        drawn = ndimage.affine_transform(x[row].reshape(8, 8), turn, shift, order=1).clip(0, 1) ** stroke[user]
        images[row, 0] = drawn * ink[user].clip(0.4, 1.6) + draw.normal(0, 0.05, (8, 8))
    return People("images", images, y, _names(owner), test)


def phones(seed: int, users: int = 40, copies: int = 3) -> People:
    """Rows of 43 numbers."""
    draw = np.random.default_rng([seed, 3])
    x, y, owner, test = _shared(draw, users, copies)
    readings = np.maximum(x @ (draw.normal(0, 1, (64, SENSORS)) / 4), 0)
    gain, offset = draw.lognormal(0, 0.25, (users, SENSORS)), draw.normal(0, 0.25, (users, SENSORS))
    readings = readings * gain[owner] + offset[owner] + draw.normal(0, 0.1, readings.shape)
    return People("table", readings.astype(np.float32), y, _names(owner), test)


def unscaled(people: People) -> People:
    """The same table in other units: some columns a thousand times as large as others."""
    scales = 10 ** np.random.default_rng(4).uniform(-1, 2.5, people.x.shape[1])
    return People("table, mixed units", (people.x * scales).astype(np.float32), people.y, people.users, people.test)


def stored(path: Path) -> People:
    """Of an .npz with `x`, `y`, `users` and `test` (true where a sample is for the test)."""
    with np.load(path) as arrays:
        x, y, users, test = (arrays[name] for name in ("x", "y", "users", "test"))
    return People(path.stem, x.astype(np.float32), y.astype(np.int64), users.astype(str), test.astype(bool))


def _shared(
    draw: np.random.Generator, users: int, copies: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Digits from 0 to 1, each several times, their labels, their users, and whether they are for the test."""
    x, y = load_digits(return_X_y=True)
    order = draw.permutation(len(y))
    x, y, test = x[order] / 16, y[order].astype(np.int64), np.arange(len(y)) >= (1 - TEST) * len(y)
    x, y, test = np.tile(x, (copies, 1)), np.tile(y, copies), np.tile(test, copies)
    liking = draw.dirichlet([2.0] * 10, size=users) * draw.lognormal(0, 0.6, size=(users, 1))
    chances = (liking[:, y] / liking[:, y].sum(axis=0)).cumsum(axis=0)
    owner = (chances < draw.random(len(y))).sum(axis=0).clip(0, users - 1)
    return x, y, owner, test


def _names(owner: NDArray[np.int64]) -> NDArray[np.str_]:
    return np.array([f"u{each:03}" for each in owner])
