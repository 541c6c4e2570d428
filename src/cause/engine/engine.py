"""Learning and forgetting in shards: the paper's Algorithm 3, top to bottom."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cause.common.hashing import derive, root_key
from cause.engine.checks import classes_of
from cause.engine.composition import settled
from cause.engine.controller import ShardController
from cause.engine.executor import Executor
from cause.engine.journal import Journal
from cause.engine.learner import Learner
from cause.engine.ledger import Ledger, MemoryLedger, Selection
from cause.engine.memory import POLICIES, Memory, PolicySetting, Shelf
from cause.engine.memory.sizing import sized
from cause.engine.partition import PARTITIONERS, Arrivals
from cause.engine.plan import ShardPlan, plan
from cause.engine.presets import FIXED, System
from cause.engine.progress import Watch
from cause.engine.quarantine import hits
from cause.engine.rehearsal import Rehearsal
from cause.engine.requests import still_held
from cause.engine.results import Effect
from cause.engine.samples import Piece, SegmentKey, Upload
from cause.engine.segments import Segmenting
from cause.engine.state import State, Storage, samples_between
from cause.engine.training import Training

SHARDS, MEMORY = 4, "2GB"
"""The paper's defaults."""
WriteRound = Callable[[int, Mapping[SegmentKey, Sequence[Piece]]], None]
"""Records a round: its number, and the pieces of its uploads by segment."""


class Engine:
    """A system of the paper: shards of sub-models in a bounded memory, over a ledger of the retained samples.

    A round of learning is `record` and then `train`; to forget is `delete` and then `train`: first training and replay
    are the same function. What must survive the process is told to the journal; here nothing is written to a disk.

    Parameters
    ----------
    learner
        Trains sub-models: a pure function.
    system
        Which partitioner, policy, pruning, … (`cause.engine.presets`).
    executor
        Where sub-models are trained.
    shards
        S, the most shards that there will be.
    memory, slots
        The budget for sub-models in bytes, or as a number of slots.
    classes
        How many classes there are; as many as the learner tells apart unless it does not say.
    seed
        All random choices follow from it.
    ledger, shelf, storage, journal
        Where samples and sub-models are kept, what they are read from again after an error, and what makes changes
        last; in memory unless a home gives its own.
    """

    def __init__(
        self,
        learner: Learner,
        system: System,
        executor: Executor,
        *,
        shards: int = SHARDS,
        memory: str | int = MEMORY,
        slots: int | None = None,
        classes: int | None = None,
        seed: int = 0,
        ledger: Ledger | None = None,
        shelf: Shelf | None = None,
        storage: Storage | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.system = system = settled(system, lambda s: learner.composed(s).sub_model_bytes, shards, memory, slots)
        self.learner, self.executor = learner.composed(system), executor
        self.classes = classes_of(classes, learner)
        self.controller = ShardController(shards, system.p, system.gamma if system.controlled else FIXED)
        self.partition = PARTITIONERS[system.partition]()
        root = root_key(seed)
        self._partition_key = derive(root, "partition")
        self.ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self.memory = self._make_memory(memory, slots, shelf, derive(root, "policy"))
        self.state = State(self.ledger, self.memory, storage, journal)
        self.segmenting = Segmenting(self.controller.most, system.slices, derive(root, "slice"))
        self.rehearsal = Rehearsal(system.rehearsal, derive(root, "rehearsal"))
        self.training = Training(self.state, self.rehearsal, derive(root, "train"))

    def _make_memory(self, budget: str | int, slots: int | None, shelf: Shelf | None, key: bytes) -> Memory:
        policy, size = POLICIES[self.system.policy], self.learner.sub_model_bytes
        slots, budget_bytes = sized(budget, slots, size, self.controller.most, bounded=policy.bounded)
        return Memory(
            policy(PolicySetting(slots, key)),
            slots=slots,
            budget_bytes=budget_bytes,
            samples_between=partial(samples_between, self.ledger),
            shelf=shelf,
        )

    # Lines 2 to 5: a round of learning. The caller holds `state.lock`.

    def record(self, t: int, uploads: Mapping[str, Upload], write: WriteRound | None = None) -> int:
        """Assign what arrived in round t to shards, and record it; return how many shards took data (S_t).

        A user stays in the shard that holds their data, as long as it is active.

        Parameters
        ----------
        t
            The number of the round.
        uploads
            What arrived, by user.
        write
            Called with the round and its segments to record them; the ledger's `record` unless it is given.
        """
        active = self.controller.at(t)
        placements = {user: self.ledger.placement(user) for user in uploads}
        staying = {user: shard for user, shard in placements.items() if shard is not None and shard < active}
        assigned = self.partition.assign(Arrivals(t, active, uploads, staying, self._partition_key, self.classes))
        (write or self.ledger.record)(t, self.segmenting.segments(t, uploads, assigned))
        return active

    # Lines 6 to 12: requests

    def plan(self, selection: Selection) -> list[ShardPlan]:
        """What deleting these samples touches, and what training costs afterwards; changes nothing."""
        return plan(self.ledger, self.memory, selection, self.rehearsal.share)

    def delete(self, ids: Sequence[str], selection: Selection) -> tuple[Effect, set[int]]:
        """Delete samples and every sub-model that saw them; return what went, and the shards that it touched.

        From here on nothing that is stored or votes has seen the samples; nothing is trained yet. Samples that somebody
        else's request has deleted meanwhile are left out.

        Parameters
        ----------
        ids
            The requests' ids in the journal.
        selection
            The samples, by user and round.
        """
        with self.state.lock:
            selection = still_held(self.ledger, selection)
            plans = self.plan(selection)
            touched = {key.shard for each in hits(self.ledger, selection) for key in each}
            if touched:
                self.state.touch(touched)
                self.executor.cancel(touched)  # a training under way may have seen the samples
            try:
                self.ledger.delete(selection)
                for shard in plans:
                    self.ledger.reinstate(shard.first)
                dropped = [key for shard in plans for key in self.memory.drop_from(shard.first)]
                staged = self.state.journal.effect(ids, selection, plans, dropped)
            except BaseException:
                self.state.reload()
                raise
        samples = sum(map(len, selection.values())) + staged
        return Effect(tuple(plans), tuple(dropped), samples, staged), touched

    # Lines 5 and 12: training, for the first time or again

    def train(
        self,
        watch: Watch | None = None,
        stop: Callable[[], bool] | None = None,
        except_: Sequence[int] = (),
        *,
        once: bool = False,
    ) -> tuple[list[SegmentKey], int]:
        """Train every segment after a shard's newest sub-model, in order; return the segments, and the RSN.

        Parameters
        ----------
        watch
            Called after each epoch.
        stop
            Asked after each segment; what is left then waits on.
        except_
            Shards that are left out.
        once
            Leave what is forgotten meanwhile for the next call.
        """
        return self.training.catch_up(self.learner, self.executor, watch, stop, except_, once=once)

    def __getstate__(self) -> dict[str, Any]:
        """For a copy of a device in memory; the executor is not copied."""
        return {name: part for name, part in vars(self).items() if name != "executor"}
