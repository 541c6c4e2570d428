"""The protocol of laws. A law says how stored states follow from the retained samples, and what a deletion does.

There are two laws. *Replayed* (`cause.engine.training`): a sub-model is a pure function of its parent and a segment, so
a deletion drops every sub-model at or after it and the segments are trained again. *Additive* (`cause.engine.adding`):
the state is a sum of integers over the samples, so a deletion subtracts them. The learner says which one it obeys
(`Learner.law`). Ledger, journal, receipts and service are the same for both.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from cause.engine.chain import Chain
from cause.engine.executor import Executor
from cause.engine.learner import Learner, Predictor
from cause.engine.ledger import Selection
from cause.engine.memory import SubModel
from cause.engine.plan import ShardPlan
from cause.engine.presets import ADDITIVE, ADDITIVE_SYSTEM, RECOMMENDED, System
from cause.engine.progress import Watch
from cause.engine.samples import SegmentKey
from cause.errors import InputError

SHARDS = 4
"""The paper's default."""


class Law(Protocol):
    """Keeps the stored states in step with the retained samples."""

    failed: dict[int, Exception]
    """The last error of each shard whose training fails."""
    in_fresh_processes: bool
    """Whether `verify` computes states in processes of their own."""

    def check_capacity(self, samples: int) -> None:
        """Raise a `BudgetError` if a state cannot hold this many samples more."""

    def plan(self, selection: Selection) -> list[ShardPlan]:
        """Return which shards a deletion would touch, and what it would cost; change nothing."""

    def delete(self, selection: Selection, plans: Sequence[ShardPlan]) -> list[SegmentKey]:
        """Delete samples from ledger and states, in memory; return the stored states that had seen them.

        The caller holds the lock, makes the change durable, and calls `reset` after an error.
        """

    def deleted(self) -> None:
        """Finish a deletion; called after `delete`, once the deletion is durable."""

    def reset(self) -> None:
        """Discard everything that was computed: ledger and memory are loaded again after an error."""

    def catch_up(
        self,
        learner: Learner,
        executor: Executor,
        watch: Watch | None = None,
        stop: Callable[[], bool] | None = None,
        skip_shards: Sequence[int] = (),
        *,
        once: bool = False,
    ) -> tuple[list[SegmentKey], int]:
        """Bring the states up to date with the retained samples; see `cause.engine.training.Training.catch_up`."""

    def chains(self, learner: Learner, shards: Collection[int] | None = None) -> list[Chain]:
        """Return what is needed to compute shards again and to compare."""

    def prepare(self) -> None:
        """Make the states ready for predictions; called before each prediction."""

    def predictor(self, learner: Learner, head: SubModel) -> Predictor:
        """Return a function that predicts with a head; the caller holds the lock.

        Raises
        ------
        DamageError
            If the head cannot be read. It is removed from the memory.
        """

    def close(self) -> None:
        """Store what is not stored yet, before the device is closed."""


def default_system(learner: Learner | None) -> str:
    """Return the name of the system of a device for which none is named."""
    return ADDITIVE_SYSTEM if learner is not None and learner.law == ADDITIVE else RECOMMENDED


def default_shards(learner: Learner | None) -> int:
    """Return the number of shards of a device for which none is given: one for sums, else the paper's four."""
    return 1 if learner is not None and learner.law == ADDITIVE else SHARDS


def check_composition(learner: Learner, system: System, shards: int) -> None:
    """Raise an `InputError` for a system or a number of shards that a learner of the additive law cannot have.

    Raises
    ------
    InputError
        If it is to have several shards, slices or rehearsed samples.
    """
    if learner.law != ADDITIVE:
        return
    for what, value, only in (("shards", shards, 1), ("slices", system.slices, 1), ("rehearsal", system.rehearsal, 0)):
        if value != only:
            raise InputError(
                f"the {learner.type_name} keeps one sum over all samples: {what} must be {only}, not {value} "
                f"(leave it out, and take system={ADDITIVE_SYSTEM!r})"
            )
