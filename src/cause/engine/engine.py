"""Learning and forgetting in shards: the paper's Algorithm 3, top to bottom."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cause.common.hashing import derive, root_key
from cause.engine.adding import Adding
from cause.engine.checks import classes_of
from cause.engine.composition import with_pruning_decided
from cause.engine.controller import ShardController
from cause.engine.executor import Executor
from cause.engine.journal import Journal
from cause.engine.law import SHARDS, Law, check_composition
from cause.engine.learner import Learner
from cause.engine.ledger import Ledger, MemoryLedger, Selection
from cause.engine.memory import POLICIES, Memory, PolicySetting, Shelf
from cause.engine.memory.sizing import sized
from cause.engine.partition import PARTITIONERS, Arrivals
from cause.engine.plan import ShardPlan
from cause.engine.presets import FIXED, IN_TURN, NEWEST, System
from cause.engine.progress import Watch
from cause.engine.quarantine import hits
from cause.engine.rehearsal import Rehearsal
from cause.engine.requests import still_held
from cause.engine.results import Effect
from cause.engine.samples import Piece, SegmentKey, Upload
from cause.engine.segments import Segmenting, renumbered
from cause.engine.state import SampleCounts, State, Storage
from cause.engine.summing import SummingLearner
from cause.engine.training import Training

MEMORY = "2GB"
"""The paper's default."""
WriteRound = Callable[[int, Mapping[SegmentKey, Sequence[Piece]]], None]
"""Records a round: its number, and the pieces of its uploads by segment."""


class Engine:
    """A system of the paper: shards of sub-models in a bounded memory, over a ledger of the retained samples.

    A round of learning is `record` and then `train`; to forget is `delete` and then `train`: first training and replay
    are the same function. The engine writes nothing to a disk: it reports every change to the journal.

    Parameters
    ----------
    learner
        Trains sub-models: a pure function.
    system
        The partitioner, policy, pruning and other choices (`cause.engine.presets`).
    executor
        Where sub-models are trained.
    shards
        S, the maximum number of shards.
    memory, slots
        The budget for sub-models in bytes, or as a number of slots.
    classes
        The number of classes; by default the learner's, or 10 if the learner does not name one.
    seed
        All random choices follow from it.
    ledger, shelf, storage, journal
        Where samples are kept, where sub-models are kept, what both are reloaded from after an error, and what makes
        changes durable. By default all of it is in memory; a home passes its own.

    Raises
    ------
    InputError
        If the number of classes is not the learner's, or a size is not positive.
    BudgetError
        If the memory is too small for one sub-model of each shard.
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
        self.system = system = with_pruning_decided(
            system, lambda s: learner.composed(s).sub_model_bytes, shards, memory, slots
        )
        self.learner, self.executor = learner.composed(system), executor
        self._replaying: tuple[Executor, ...] = ()
        check_composition(self.learner, system, shards)
        self.classes = classes_of(classes, learner)
        gamma = system.gamma if system.controlled else FIXED
        self.controller = ShardController(shards, system.p, gamma, in_turn=system.active == IN_TURN)
        self.partition = PARTITIONERS[system.partition]()
        root = root_key(seed)
        self._partition_key = derive(root, "partition")
        self.ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self.memory = self._make_memory(memory, slots, shelf, derive(root, "policy"))
        self.state = State(self.ledger, self.memory, storage, journal)
        self.segmenting = Segmenting(self.controller.most, system.slices, derive(root, "slice"))
        self.rehearsal = Rehearsal(system.rehearsal, derive(root, "rehearsal"))
        newest_only = system.replays == NEWEST
        self.training: Law = (
            Adding(self.state, self.learner)
            if isinstance(self.learner, SummingLearner)
            else Training(
                self.state, self.rehearsal, derive(root, "train"), self.controller.most, newest_only=newest_only
            )
        )

    def _make_memory(self, budget: str | int, slots: int | None, shelf: Shelf | None, key: bytes) -> Memory:
        policy, size = POLICIES[self.system.policy], self.learner.sub_model_bytes
        heads = self.controller.most
        slots, budget_bytes = sized(budget, slots, size, heads, bounded=policy.bounded, apart=policy.heads_apart)
        return Memory(
            policy(PolicySetting(slots, key)),
            slots=slots,
            budget_bytes=budget_bytes,
            counts=SampleCounts(self.ledger),
            shelf=shelf,
        )

    # Lines 2 to 5: a round of learning. The caller holds `state.lock`.

    def record(self, t: int, uploads: Mapping[str, Upload], write: WriteRound | None = None) -> int:
        """Assign the uploads of round t to shards and record them in the ledger.

        A user stays in the shard that holds their data, as long as it is active.

        Parameters
        ----------
        t
            The number of the round.
        uploads
            The uploads by user.
        write
            Called with the round and its segments to record them; the ledger's `record` unless it is given.

        Returns
        -------
        int
            S_t, the number of shards that are active in the round.

        Raises
        ------
        BudgetError
            If the state cannot hold this many samples. Nothing was changed then.
        """
        active = self.controller.active(t)
        number_of = {shard: number for number, shard in enumerate(active)}
        self.training.check_capacity(sum(len(upload.positions) for upload in uploads.values()))
        placements = {user: self.ledger.placement(user) for user in uploads}
        staying = {user: number_of[shard] for user, shard in placements.items() if shard in number_of}
        arrivals = Arrivals(t, len(active), uploads, staying, self._partition_key, self.classes)
        assigned = renumbered(self.partition.assign(arrivals), active)
        (write or self.ledger.record)(t, self.segmenting.segments(t, uploads, assigned))
        return len(active)

    # Lines 6 to 12: requests

    def plan(self, selection: Selection) -> list[ShardPlan]:
        """Return which shards a deletion would touch and what their retraining would cost; change nothing."""
        return self.training.plan(selection)

    def delete(self, ids: Sequence[str], selection: Selection, *, requested: bool = True) -> tuple[Effect, set[int]]:
        """Delete samples and every stored state that has seen them.

        Afterwards no stored or voting state has seen the samples. Nothing is trained yet; under the additive law
        nothing needs to be. Samples that another request has deleted in the meantime are skipped.

        Parameters
        ----------
        ids
            The requests' ids in the journal.
        selection
            The samples, by user and round.
        requested
            Whether the deletion serves a user's request; the policy does not learn from samples that expire.

        Returns
        -------
        tuple
            What was deleted, and the numbers of the shards that it touched.
        """
        with self.state.lock:
            selection = still_held(self.ledger, selection)
            plans = self.plan(selection)
            learned, quarantined = hits(self.ledger, selection)
            touched = {key.shard for key in (*learned, *quarantined)}
            if touched:
                self.state.touch(touched)
                for executor in (self.executor, *self._replaying):
                    executor.cancel(touched)  # a training under way may have seen the samples
                self.state.journal.await_workers(touched)
            try:
                dropped = self.training.delete(selection, plans)
                if requested and plans:
                    self.memory.policy.requested([shard_plan.first for shard_plan in plans], self.memory)
                staged = self.state.journal.effect(ids, selection, plans, dropped)
            except BaseException:
                self.training.reset()
                self.state.reload()
                raise
            self.training.deleted()
        samples = sum(map(len, selection.values())) + staged
        return Effect(tuple(plans), tuple(dropped), samples, staged), touched

    def start_over(self, shards: Collection[int]) -> list[SegmentKey]:
        """Drop all sub-models of shards, which are trained in this device's environment from now on.

        The shards wait for `train`, and do not vote until then.

        Parameters
        ----------
        shards
            Shards that hold samples.

        Returns
        -------
        list of SegmentKey
            The dropped sub-models.
        """
        with self.state.lock:
            self.state.touch(shards)
            for executor in (self.executor, *self._replaying):
                executor.cancel(shards)
            try:
                dropped = [key for shard in shards for key in self.memory.drop_from(SegmentKey(shard, 0))]
                environments = dict.fromkeys(shards, self.learner.environment)
                self.state.journal.placed(environments, dropped)
            except BaseException:
                self.state.reload()
                raise
            self.memory.environments.update(environments)
        return dropped

    # Lines 5 and 12: training, for the first time or again

    def train(
        self,
        watch: Watch | None = None,
        stop: Callable[[], bool] | None = None,
        skip_shards: Sequence[int] = (),
        *,
        once: bool = False,
    ) -> tuple[list[SegmentKey], int]:
        """Train every segment after each shard's newest sub-model, in order.

        Parameters
        ----------
        watch
            Called after each epoch.
        stop
            Called after each segment; if it returns true, the other segments wait for the next call.
        skip_shards
            Shards to leave out.
        once
            Leave shards whose samples are forgotten during the call to the next one.

        Returns
        -------
        tuple
            The trained segments, and the RSN: the number of samples that were trained on again.

        Raises
        ------
        Exception
            The error of the lowest shard that could not be trained, after all others were.
        """
        return self.training.catch_up(self.learner, self.executor, watch, stop, skip_shards, once=once)

    def close(self) -> None:
        """Store what is not stored yet, and end the workers."""
        try:
            self.training.close()
        finally:
            for executor in (self.executor, *self._replaying):
                executor.close()
            self.state.journal.workers_ended()

    @contextmanager
    def replaying(self, executor: Executor, shards: Collection[int]) -> Iterator[None]:
        """Let erasures reach another executor, too, which replays these shards; its workers end afterwards."""
        self._replaying = (*self._replaying, executor)
        try:
            yield
        finally:
            executor.retire(shards)
            self._replaying = tuple(other for other in self._replaying if other is not executor)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the executor out of copies of a device in memory."""
        return {name: part for name, part in vars(self).items() if name != "executor"}
