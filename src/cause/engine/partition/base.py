"""The base class of partitioners, and what they are given."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cause.engine.samples import Upload

Assignment = int | NDArray[np.integer]
"""A shard for the whole upload, or one for each of its samples."""


@dataclass(frozen=True)
class Arrivals:
    """What a partitioner is given: the uploads of a round, and the shards of users who uploaded before."""

    round: int
    shards: int  # S_t: shards 0 … S_t-1 take data
    uploads: Mapping[str, Upload]
    placements: Mapping[str, int]  # users whose shard still takes data
    key: bytes
    classes: int

    @property
    def sizes(self) -> dict[str, int]:
        """The number of samples of each user."""
        return {user: len(upload.positions) for user, upload in self.uploads.items()}


class Partitioner(ABC):
    """Assigns each upload or sample to a shard. The result does not depend on the order of the uploads."""

    by_sample = False
    """Whether samples of one upload may go to different shards. They are then handled one by one."""

    @abstractmethod
    def assign(self, arrivals: Arrivals) -> Mapping[str, Assignment]:
        """Return a shard below `arrivals.shards` for each user's upload, or for each of its samples."""
