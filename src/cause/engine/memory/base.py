"""The seam of all replacement policies."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cause.engine.samples import SegmentKey


class MemoryView(Protocol):
    """What a policy may look at."""

    @property
    def slots(self) -> int:
        """N: slots are numbered 0 … N-1 here (the paper counts from 1)."""

    def shards(self) -> Sequence[int]:
        """The shards that have a sub-model stored."""

    def slot_of(self, key: SegmentKey) -> int:
        """The slot of a stored sub-model."""

    def stored_of(self, shard: int) -> Sequence[SegmentKey]:
        """A shard's stored sub-models, oldest first; the last one is its head."""

    def evictable(self, slot: int, newcomer: SegmentKey) -> bool:
        """Is there a sub-model in the slot that is not the head of a shard other than the newcomer's?"""

    def candidates(self, newcomer: SegmentKey) -> Sequence[SegmentKey]:
        """Everything evictable, by slot."""

    def samples_between(self, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
        """Retained samples of a shard's segments after one (or from the start) up to another, inclusive."""


@dataclass(frozen=True)
class PolicySetting:
    """What a policy is built from."""

    slots: int
    key: bytes


class Policy(ABC):
    """Names the sub-model that makes room for a newcomer.

    A policy is asked only when the memory is full. Its state is a few numbers that survive rounds, requests and a
    restart of the device.
    """

    bounded = True

    def __init__(self, setting: PolicySetting) -> None:
        self.setting = setting

    @abstractmethod
    def victim(self, newcomer: SegmentKey, memory: MemoryView) -> int:
        """The slot to empty: an evictable one."""

    def supersedes(self, newcomer: SegmentKey, memory: MemoryView) -> int | None:
        """A slot that the newcomer takes over even when there is room."""
        return None

    def stored(self, key: SegmentKey, memory: MemoryView) -> None:
        """A newcomer was stored."""

    def removed(self, key: SegmentKey, memory: MemoryView) -> None:
        """A sub-model left: evicted, or tainted and dropped."""

    def purge(self) -> None:
        """Samples were deleted, and the sub-models that saw them: keep nothing that was computed from them."""

    def state(self) -> dict[str, int]:
        """What must survive a restart and cannot be computed from what is stored: a few numbers, kept as JSON."""
        return {}

    def restore(self, state: dict[str, int], memory: MemoryView) -> None:
        """Go on where an earlier process stopped.

        Called whenever a memory is filled from the disk: at an opening, and after an error in a running process. All
        that the policy held before is replaced.

        Parameters
        ----------
        state
            What `state` returned then; `{}` stands for a policy that was never asked.
        memory
            What is stored now.
        """
