"""Trains every segment after a shard's head, in order: for the first time and in a replay alike."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import groupby
from threading import RLock
from typing import Any

from cause.common.hashing import digest, training_seed
from cause.engine.chain import Chain
from cause.engine.environments import absent, choose
from cause.engine.executor import Executor, ShardError, ShardWork, Task, cancel_unless
from cause.engine.learner import Learner, Predictor
from cause.engine.ledger import Segment, Selection
from cause.engine.memory import SubModel
from cause.engine.plan import ShardPlan, plan
from cause.engine.progress import Tally, Watch
from cause.engine.quarantine import verdicts
from cause.engine.rehearsal import Rehearsal
from cause.engine.samples import Lesson, SegmentKey
from cause.engine.state import State
from cause.errors import Cancelled, DamageError, PassingError, error_name, is_passing

NONE = bytes(32)
"""Takes the place of a digest in an identity if there is no parent or nothing rehearsed."""


class Training:
    """The replayed law: brings the stored sub-models up to date with the retained samples, segment by segment.

    A sub-model is a pure function of parent, lesson, seed and recipe; the executor decides where and when it is
    computed. If samples of a shard are forgotten during its training, the result is not stored.

    Parameters
    ----------
    state
        Ledger and memory.
    rehearsal
        Chooses the earlier samples that each segment repeats.
    key
        The seed of every segment is derived from it.
    shards
        The most shards that there will be.
    newest_only
        Of the segments that a shard is trained on in one go, store only the newest sub-model.
    """

    def __init__(self, state: State, rehearsal: Rehearsal, key: bytes, shards: int, *, newest_only: bool) -> None:
        self._state, self._rehearsal, self._key, self._newest_only = state, rehearsal, key, newest_only
        self._shards = shards
        self._one_at_a_time = RLock()
        # segments that fail although none of their uploads fails alone, with `State.changes` at that time
        self._fails_together: dict[SegmentKey, int] = {}
        self.failed: dict[int, Exception] = {}
        """The last error of each shard whose training fails."""
        self.in_fresh_processes = True

    # Deletions

    def check_capacity(self, samples: int) -> None:
        """Do nothing: a sub-model can be trained on any number of samples."""

    def plan(self, selection: Selection) -> list[ShardPlan]:
        """Return which shards a deletion would touch and what their retraining would cost; change nothing."""
        return plan(self._state.ledger, self._state.memory, selection, self._rehearsal.share)

    def delete(self, selection: Selection, plans: Sequence[ShardPlan]) -> list[SegmentKey]:
        """Delete samples, and drop every sub-model at or after the first touched segment of each shard."""
        ledger, memory = self._state.ledger, self._state.memory
        ledger.delete(selection)
        for shard_plan in plans:
            ledger.reinstate(shard_plan.first)
        return [key for shard_plan in plans for key in memory.drop_from(shard_plan.first)]

    def deleted(self) -> None:
        """Do nothing: the shards wait for `catch_up`."""

    def reset(self) -> None:
        """Do nothing: nothing is kept outside ledger and memory."""

    # Training

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
        """Train every shard whose head is not its newest segment, in ascending order.

        Parameters
        ----------
        learner, executor
            What trains, and where.
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
        trained: list[SegmentKey] = []
        failed: dict[int, Exception] = {}
        rsn, state = 0, self._state
        with self._one_at_a_time:
            stopped, again = False, True
            while again and not stopped:
                unfinished: set[int] = set()
                waiting = self._list_waiting({*skip_shards, *failed})
                try:
                    for key, retrained in self._pass(learner, executor, watch, waiting, unfinished):
                        trained.append(key)
                        rsn += retrained
                        stopped = stop is not None and stop()
                        if stopped:
                            break
                    again = bool(unfinished)
                except Cancelled:
                    again = True
                except ShardError as error:
                    try:
                        if not self._quarantine(learner, executor, error, waiting.changes):
                            failed[error.shard] = error.cause
                    except Cancelled:
                        stopped = True
                    stopped = stopped or (stop is not None and stop())
                    continue
                except PassingError as error:  # of no shard: nothing can be trained now
                    failed.update({segment.key.shard: error for segment, _ in waiting.lessons})
                    again = False
                if again and not stopped:
                    stopped = once or (stop is not None and stop())
            with state.lock:
                state.journal.caught_up(state.waiting())
                self.failed = self._still_failed(failed)
                state.journal.failed({shard: error_name(error) for shard, error in self.failed.items()})
        if failed:
            raise failed[min(failed)]
        return trained, rsn

    def _list_waiting(self, skip_shards: Collection[int]) -> "_Waiting":
        """Return the segments to train now, of all shards but some."""
        state = self._state
        with state.lock:
            shards = [shard for shard in state.ledger.shards() if shard not in skip_shards]
            waiting = _Waiting(state.changes, [pair for shard in shards for pair in self.behind(shard)])
            if waiting.lessons:
                state.memory.policy.begin()
        return waiting

    def _pass(
        self, learner: Learner, executor: Executor, watch: Watch | None, waiting: "_Waiting", unfinished: set[int]
    ) -> Generator[tuple[SegmentKey, int], None, None]:
        """Train all waiting segments; yield each one once it is stored, with the number of samples trained on again.

        Adds to `unfinished` the shards that meanwhile lost samples to a request, or a sub-model to damage.
        """
        state, changes, lessons = self._state, waiting.changes, waiting.lessons
        if not lessons:
            return  # before the learner is used: loading it takes seconds
        before: dict[int, SegmentKey] = {}  # by shard: the last segment of this pass
        by_shard = {shard: list(pairs) for shard, pairs in groupby(lessons, key=lambda pair: pair[0].key.shard)}
        environments = self._environments(learner, executor, by_shard)
        work = [self._work(shard, pairs, changes, environments[shard]) for shard, pairs in by_shard.items()]
        tally = Tally({segment.key: lesson.total for segment, lesson in lessons}, watch)

        def on_epoch(segment: SegmentKey, epoch: int, epochs: int) -> None:
            cancel_unless(state.current(segment.shard, changes))
            tally.record(segment, epoch, epochs)

        with closing(executor.train(learner, work, on_epoch)) as blobs:
            for (segment, lesson), blob in zip(lessons, blobs, strict=True):
                with state.lock:
                    if blob is None or not state.current(segment.key.shard, changes):
                        unfinished.add(segment.key.shard)
                        continue
                    retrained = lesson.total if segment.trained else 0
                    environment = environments[segment.key.shard]
                    try:
                        identity = self._identity(digest("recipe", learner.recipe_digest, environment), segment, lesson)
                        sub_model = SubModel(segment.key, identity, learner.stored_bytes(blob), environment)
                        previous = before.get(segment.key.shard) if self._newest_only else None
                        evicted = state.memory.admit(sub_model, blob, instead_of=previous)
                        segment.trained = True
                        state.journal.trained(segment.key, evicted, retrained)
                    except BaseException:
                        state.reload()
                        raise
                before[segment.key.shard] = segment.key
                yield segment.key, retrained

    def _environments(
        self, learner: Learner, executor: Executor, by_shard: Mapping[int, Sequence[tuple[Segment, Lesson]]]
    ) -> dict[int, str]:
        """Return the environment in which each of these shards is trained.

        If the executor offers others than this device's, all shards that were never trained are given one first, also
        those without samples: the choice must not depend on who uploads. It is durable when this returns.

        Raises
        ------
        ShardError
            For the first of the shards whose environment the executor does not offer.
        """
        room, state = executor.environments(learner), self._state
        with state.lock:
            if set(room) != {learner.environment}:
                chosen = {shard: choose(shard, room) for shard in range(self._shards) if not self._is_placed(shard)}
                if chosen:
                    state.journal.placed(chosen)
                    state.memory.environments.update(chosen)
            environments = {shard: self.environment_of(shard, learner) for shard in by_shard}
        for shard, environment in environments.items():
            if environment not in room:
                raise ShardError(by_shard[shard][0][0].key, absent(shard, environment, room))
        return environments

    def _is_placed(self, shard: int) -> bool:
        """Return whether a shard has an environment: by a record, or because this device has trained it."""
        memory = self._state.memory
        if shard in memory.environments or memory.stored_of(shard):
            return True
        return any(segment.trained for segment in self._state.ledger.lineage(shard))

    def environment_of(self, shard: int, learner: Learner) -> str:
        """Return the environment that a shard is trained in: the recorded one, or else this device's."""
        return self._state.memory.environments.get(shard) or learner.environment

    def _still_failed(self, failed: dict[int, Exception]) -> dict[int, Exception]:
        """Return the last error of each waiting shard, those that this call left out included."""
        waiting = set(self._state.waiting())
        return {shard: error for shard, error in {**self.failed, **failed}.items() if shard in waiting}

    def _quarantine(self, learner: Learner, executor: Executor, error: ShardError, since: int) -> bool:
        """Quarantine the uploads that fail alone, after a failed training; return whether to train again at once.

        `since` is `State.changes` when the segments of the failed training were listed.
        """
        state, key = self._state, error.segment
        if is_passing(error.cause) or state.current(key.shard, self._fails_together.get(key, -1)):
            return False  # the same samples were judged before, and none of them fails alone
        current = partial(state.current, key.shard, since)
        with state.lock:
            if not current():
                return True
            pieces = state.ledger.lineage(key.shard)[key].pieces
            environment = self.environment_of(key.shard, learner)
        failing = verdicts(learner, executor, key, pieces, current, state.sending(key.shard), environment)
        with state.lock:
            if not current():
                return True
            if not failing:
                if failing is not None:
                    self._fails_together[key] = since
                return False
            try:
                state.touch([key.shard])
                state.ledger.quarantine(key, failing)
            except BaseException:
                state.reload()
                raise
            state.journal.quarantined(key, len(failing))
        return True

    def behind(self, shard: int) -> Iterable[tuple[Segment, Lesson]]:
        """Return the segments after a shard's head, each with its lesson; none if the shard is up to date."""
        state = self._state
        if state.up_to_date(shard):
            return ()
        head = state.memory.head(shard)
        return self._rehearsal.lessons(state.ledger.lineage(shard), head.key if head else None)

    def _work(self, shard: int, lessons: Sequence[tuple[Segment, Lesson]], changes: int, environment: str) -> ShardWork:
        tasks = [Task(lesson, training_seed(self._key, *segment.key), environment) for segment, lesson in lessons]
        current = partial(self._state.current, shard, changes)
        return ShardWork(shard, partial(self._state.head_blob, shard), tasks, current, self._state.sending(shard))

    def _identity(self, recipe: bytes, segment: Segment, lesson: Lesson) -> bytes:
        """Return a digest of everything that the sub-model after a shard's head is made from."""
        head, seed = self._state.memory.head(segment.key.shard), training_seed(self._key, *segment.key)
        rehearsed = NONE
        if lesson.rehearsed:
            rehearsed = digest(*(upload.names(positions) for upload, positions in lesson.rehearsed))
        return sha256(recipe + seed + (head.identity if head else NONE) + segment.manifest + rehearsed).digest()

    # Predictions

    def prepare(self) -> None:
        """Do nothing: the heads that are stored predict."""

    def predictor(self, learner: Learner, head: SubModel) -> Predictor:
        """Return a function that predicts with a head, which it decodes at each call."""
        blob = self._state.load(head.key)
        return lambda x: learner.predict(learner.decode(blob), x)

    def close(self) -> None:
        """Do nothing: every sub-model is stored when it is trained."""

    # Replay from scratch, to verify

    def chains(self, learner: Learner, shards: Collection[int] | None = None) -> list[Chain]:
        """Return what is needed to verify shards by replay: retained data, seeds and stored sub-models.

        Each chain shows its shard at one moment. A sub-model that is evicted while it is read is left out.

        Parameters
        ----------
        learner
            Trains the replay.
        shards
            The shards to verify; by default all.

        Raises
        ------
        DamageError
            If a stored sub-model cannot be read.
        """
        state = self._state
        with state.lock:
            chosen = [shard for shard in state.ledger.shards() if shards is None or shard in shards]
        return [chain for shard in chosen if (chain := self._chain(learner, shard)).lessons]

    def _chain(self, learner: Learner, shard: int) -> Chain:
        state = self._state
        while True:
            with state.lock:
                since, refreshes = state.changes, state.reader_refreshes
                sub_models = [state.memory[key] for key in state.memory.stored_of(shard)]
                lessons = [lesson for _, lesson in self._rehearsal.lessons(state.ledger.lineage(shard), None)]
            # one by one: other threads get the lock in between
            read = {sub_model.key: self._stored(sub_model) for sub_model in sub_models}
            stored = {key: contents for key, contents in read.items() if contents is not None}
            if state.current(shard, since) and state.reader_refreshes == refreshes:
                newest = max(stored, default=None)  # later segments may fail to train, and have nothing to compare
                links = [
                    (lesson, training_seed(self._key, *lesson.segment), stored.get(lesson.segment))
                    for lesson in lessons
                    if newest is not None and lesson.segment <= newest
                ]
                return Chain(learner, links, self.environment_of(shard, learner))

    def _stored(self, sub_model: SubModel) -> tuple[str, bytes] | None:
        """Return the environment and the bytes of a sub-model; None if it was evicted."""
        memory = self._state.memory
        with self._state.lock:
            while sub_model.key in memory and memory[sub_model.key] == sub_model:
                try:
                    return sub_model.environment, memory.shelf.get(sub_model.key)
                except DamageError:
                    if not self._state.refresh_if_reader():  # on a reader, the writing process may have evicted it
                        raise
            return None

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_one_at_a_time"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _one_at_a_time=RLock())


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The segments to train in one pass."""

    changes: int
    """`State.changes` when they were listed."""
    lessons: Sequence[tuple[Segment, Lesson]]
