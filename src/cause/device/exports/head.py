"""A head to export."""

from dataclasses import dataclass
from typing import Any

from cause.engine.samples import SegmentKey


@dataclass(frozen=True)
class Head:
    """One head: its decoded state, and its weight in a weighted vote."""

    key: SegmentKey
    weight: int
    state: Any

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"shard-{self.key.shard}"
