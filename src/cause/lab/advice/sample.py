"""A sample of a user's data: what candidates learn, and what they are tested on."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.dataset import Dataset
from cause.errors import InputError

LEAST, HELD_OUT = 50, 0.2
"""The fewest samples, and the share of them on which candidates are tested."""
LEAST_SHARE, MOST_SHARE = 0.1, 0.4
"""Of the samples: if the held-out users have fewer or more, single samples are held out instead."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some samples of a data set; pictures have their channels first."""

    name: str
    x: NDArray[Any]
    y: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]
    owners: NDArray[np.str_] | None
    """The user of each training sample, if the data names users."""
    classes: int
    all_y: NDArray[np.int64]
    """The labels of the whole data set, and its users: they decide how much a system would retrain."""
    all_owners: NDArray[np.str_] | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def is_picture(self) -> bool:
        """Whether inputs are pictures: channels, height and width."""
        return self.x.ndim == 4

    @property
    def is_bytes(self) -> bool:
        """Whether inputs are bytes from 0 to 255."""
        return self.x.dtype == np.uint8

    @property
    def digest(self) -> str:
        """SHA-256 of all samples, by which measurements are recognised."""
        parts = sha256(repr((self.x.shape, self.x.dtype.str, self.x_test.shape, self.classes)).encode())
        for array in (self.x, self.y, self.x_test, self.y_test, self.all_y):
            parts.update(np.ascontiguousarray(array).tobytes())
        for owners in (self.owners, self.all_owners):
            parts.update(b"" if owners is None else "\0".join(owners.tolist()).encode())
        return parts.hexdigest()


def sample_of(data: Dataset, most: int, seed: int = 0) -> Sample:
    """Draw samples of a data set at random, and hold out about a fifth of them.

    Where the data names users, whole users are held out: candidates are tested on users that they have not seen.

    Parameters
    ----------
    data
        The data set.
    most
        At most so many samples are drawn.
    seed
        Of the draw.

    Raises
    ------
    InputError
        If there are too few samples.
    """
    count = min(most, len(data.y))
    if count < LEAST:
        raise InputError(f"advice needs at least {LEAST} samples, not {count}")
    chosen = np.random.default_rng(seed).permutation(len(data.y))[:count]
    held_out, kept = _split(chosen, data.users)
    x = data.x
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4:
        x = np.moveaxis(x, -1, 1)
    owners = data.users
    return Sample(
        data.name,
        np.ascontiguousarray(x[kept]),
        data.y[kept],
        np.ascontiguousarray(x[held_out]),
        data.y[held_out],
        None if owners is None else owners[kept],
        data.classes,
        data.y,
        owners,
    )


def _split(chosen: NDArray[np.int64], users: NDArray[np.str_] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which of the drawn samples are held out, and which are learned."""
    count = int(len(chosen) * HELD_OUT)
    if users is not None:
        names, owners = np.unique(users[chosen], return_inverse=True)
        sizes = np.bincount(owners)
        order = np.random.default_rng(len(chosen)).permutation(len(names))
        tested = order[: int(np.searchsorted(np.cumsum(sizes[order]), count)) + 1]
        out = np.isin(owners, tested)
        if LEAST_SHARE * len(chosen) <= out.sum() <= MOST_SHARE * len(chosen):
            return chosen[out], chosen[~out]
    return chosen[:count], chosen[count:]
