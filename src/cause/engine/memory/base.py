"""The base class of replacement policies, and what a policy can see of the memory."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cause.engine.samples import SegmentKey


class MemoryView(Protocol):
    """The part of the memory that a policy may read."""

    @property
    def slots(self) -> int:
        """N, the number of slots; they are numbered 0 … N-1 here (the paper counts from 1)."""

    @property
    def round(self) -> int:
        """The number of the current round; a segment's age is counted from it."""

    def shards(self) -> Sequence[int]:
        """Return the shards that have a stored sub-model, ascending."""

    def slot_of(self, key: SegmentKey) -> int:
        """Return the slot of a stored sub-model."""

    def stored_of(self, shard: int) -> Sequence[SegmentKey]:
        """Return a shard's stored sub-models, oldest first; the last one is its head."""

    def segments_of(self, shard: int) -> Sequence[tuple[SegmentKey, int]]:
        """Return a shard's segments and their retained samples, oldest first, those that are not trained yet too."""

    def evictable(self, slot: int, newcomer: SegmentKey) -> bool:
        """Return whether the slot holds a sub-model that may be evicted: not the head of another shard."""

    def candidates(self, newcomer: SegmentKey) -> Sequence[SegmentKey]:
        """Return the evictable sub-models, in the order of their slots."""

    def samples_between(self, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
        """Return the number of retained samples in a shard's segments after `after` (None: all), up to `upto`."""


@dataclass(frozen=True)
class PolicySetting:
    """The arguments of a policy."""

    slots: int
    """N, the number of slots."""
    key: bytes
    """The key of random choices."""


class Policy(ABC):
    """Chooses the sub-model that is evicted when the memory is full.

    Its state is a few numbers that survive rounds, requests and a restart of the device.
    """

    bounded = True
    """Whether the memory has a limit."""
    heads_apart = False
    """Whether each shard's head has a place of its own beside the N slots. Then every slot may be emptied, also that of
    another shard's head, which stays in its place; and a newcomer need not get a slot (`takes`)."""

    def __init__(self, setting: PolicySetting) -> None:
        self.setting = setting

    @abstractmethod
    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        """Return the slot to empty for a newcomer; it must be evictable."""

    def takes(self, newcomer: SegmentKey, memory: MemoryView) -> bool:
        """Return whether a newcomer gets a slot; only a policy with `heads_apart` may say no."""
        return True

    def begin(self) -> None:
        """Called before the sub-models of a round, or of a replay, are stored."""

    def requested(self, first: Sequence[SegmentKey], memory: MemoryView) -> None:
        """Called when requests take effect, not when samples expire.

        Parameters
        ----------
        first
            The first touched segment of each touched shard.
        memory
            The memory, without the tainted sub-models.
        """

    @classmethod
    def without_requests(cls, state: dict[str, int]) -> dict[str, int]:
        """Return a state without everything that was learned from requests."""
        return state

    def supersedes(self, newcomer: SegmentKey, memory: MemoryView) -> int | None:
        """Return a slot that the newcomer takes over although there is room; None by default."""
        return None

    def stored(self, key: SegmentKey, memory: MemoryView) -> None:
        """Called after a sub-model was stored."""

    def removed(self, key: SegmentKey, memory: MemoryView) -> None:
        """Called after a sub-model was evicted, dropped or discarded."""

    def purge(self) -> None:
        """Called after a deletion: discard everything that was computed from deleted samples."""

    def state(self) -> dict[str, int]:
        """Return the numbers that must survive a restart and do not follow from the stored sub-models."""
        return {}

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        """Replace the policy's state by a stored one.

        Called whenever a memory is loaded from the disk: when a device is opened, and after an error in a running
        process.

        Parameters
        ----------
        state
            What `state` returned; `{}` for a policy that has not been used yet.
        memory
            The stored sub-models.
        """
