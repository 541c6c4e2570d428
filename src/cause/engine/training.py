"""Training, first time and replay alike: every segment after a shard's head, in order."""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from itertools import groupby
from threading import RLock
from typing import Any

from cause.common.hashing import digest, training_seed
from cause.engine.chain import Chain
from cause.engine.executor import Executor, ShardError, ShardWork, Task
from cause.engine.learner import Learner
from cause.engine.ledger import Segment
from cause.engine.memory import SubModel
from cause.engine.progress import Tally, Watch
from cause.engine.quarantine import verdicts
from cause.engine.rehearsal import Rehearsal
from cause.engine.samples import Lesson, SegmentKey
from cause.engine.state import State
from cause.errors import Cancelled, DamageError, error_name, is_passing

NONE = bytes(32)
"""In an identity, where a digest of 32 bytes stands for what is not there."""


class Training:
    """Makes what is stored follow from what is retained, segment by segment.

    What it makes is a pure function of parent, lesson, seed and recipe; where and when that is computed is the
    executor's affair. A segment of which something was forgotten meanwhile is not admitted.
    """

    def __init__(self, held: State, rehearsal: Rehearsal, key: bytes) -> None:
        self._held, self._rehearsal, self._key = held, rehearsal, key
        self._turn = RLock()  # one replay at a time
        self._since = 0  # the `changes` with which the pass under way began
        self._blameless: dict[SegmentKey, int] = {}  # segments that fail, and no part of them alone, at `changes`
        self.failed: dict[int, Exception] = {}
        """Shards whose training fails, by their last error."""

    def catch_up(
        self,
        learner: Learner,
        executor: Executor,
        watch: Watch | None = None,
        stop: Callable[[], bool] | None = None,
        except_: Sequence[int] = (),
        *,
        once: bool = False,
    ) -> tuple[list[SegmentKey], int]:
        """Train every shard whose head is not its newest segment, ascending; what was trained, and the RSN.

        `stop` is asked after each segment. With `once`, what is forgotten meanwhile is left for the next call. When a
        shard cannot be trained the others are, and then its error is raised.
        """
        trained: list[SegmentKey] = []
        failed: dict[int, Exception] = {}
        rsn, held = 0, self._held
        with self._turn:
            stopped, again = False, True
            while again and not stopped:
                left: set[int] = set()
                try:
                    for key, retrained in self._pass(learner, executor, watch, {*except_, *failed}, left):
                        trained.append(key)
                        rsn += retrained
                        stopped = stop is not None and stop()
                        if stopped:
                            break
                    again = bool(left)  # forgotten meanwhile, or found damaged: that starts again
                except Cancelled:
                    again = True
                except ShardError as error:
                    try:
                        if not self._set_aside(learner, executor, error):
                            failed[error.shard] = error.cause
                    except Cancelled:
                        stopped = True
                    stopped = stopped or (stop is not None and stop())
                    continue
                if again and not stopped:
                    stopped = once or (stop is not None and stop())
            with held.lock:
                held.journal.caught_up(held.waiting())
                self.failed = self._still_failed(failed)
                held.journal.failed({shard: error_name(error) for shard, error in self.failed.items()})
        if failed:
            raise failed[min(failed)]
        return trained, rsn

    def _pass(
        self, learner: Learner, executor: Executor, watch: Watch | None, except_: Collection[int], left: set[int]
    ) -> Generator[tuple[SegmentKey, int], None, None]:
        """One pass over what waits; each segment once it is stored, and how many samples were trained again.

        Shards that were touched meanwhile, and so are not done, are added to `left`.
        """
        held = self._held
        with held.lock:
            changes = self._since = held.changes
            shards = [shard for shard in held.ledger.shards() if shard not in except_]
            lessons = [pair for shard in shards for pair in self.behind(shard)]
        if not lessons:
            return  # without asking the learner for anything: it may not be loaded
        work = [
            self._work(shard, list(own), changes) for shard, own in groupby(lessons, key=lambda pair: pair[0].key.shard)
        ]
        tally = Tally({segment.key: lesson.total for segment, lesson in lessons}, watch)
        recipe = digest("recipe", learner.recipe_digest, learner.environment)

        def told(segment: SegmentKey, epoch: int, epochs: int) -> None:
            if not held.current(segment.shard, changes):
                raise Cancelled("the data was forgotten while it was trained on")
            tally.told(segment, epoch, epochs)

        with closing(executor.train(learner, work, told)) as blobs:
            for (segment, lesson), blob in zip(lessons, blobs, strict=True):
                with held.lock:
                    if blob is None or not held.current(segment.key.shard, changes):
                        left.add(segment.key.shard)
                        continue
                    retrained = lesson.total if segment.trained else 0
                    try:
                        identity = self._identity(recipe, segment, lesson)
                        size = learner.stored_bytes(blob)
                        sub_model = SubModel(segment.key, identity, size, learner.environment)
                        evicted = held.memory.admit(sub_model, blob)
                        segment.trained = True
                        held.journal.trained(segment.key, evicted, retrained)
                    except BaseException:
                        held.reload()
                        raise
                yield segment.key, retrained

    def _still_failed(self, failed: dict[int, Exception]) -> dict[int, Exception]:
        """Shards that fail, also those that this call left out, by their last error."""
        waiting = set(self._held.waiting())
        return {shard: error for shard, error in {**self.failed, **failed}.items() if shard in waiting}

    def _set_aside(self, learner: Learner, executor: Executor, error: ShardError) -> bool:
        """After a training that failed: put in quarantine what fails alone. Whether it is to be tried again at once."""
        held, key, since = self._held, error.segment, self._since
        if is_passing(error.cause) or held.current(key.shard, self._blameless.get(key, -1)):
            return False  # nothing has changed since nothing was found to fail alone
        current = partial(held.current, key.shard, since)
        with held.lock:
            if not current():
                return True
            pieces = held.ledger.lineage(key.shard)[key].pieces
        found = verdicts(learner, executor, key, pieces, current)
        with held.lock:
            if not current():
                return True
            if not found:
                self._blameless |= {} if found is None else {key: since}
                return False
            try:
                held.touch([key.shard])
                held.ledger.quarantine(key, found)
            except BaseException:
                held.reload()
                raise
            held.journal.quarantined(key, len(found))
        return True

    def behind(self, shard: int) -> Iterable[tuple[Segment, Lesson]]:
        """The segments after a shard's head, with what is to be learned from each."""
        held = self._held
        if held.up_to_date(shard):
            return ()
        head = held.memory.head(shard)
        return self._rehearsal.lessons(held.ledger.lineage(shard), head.key if head else None)

    def _work(self, shard: int, lessons: Sequence[tuple[Segment, Lesson]], changes: int) -> ShardWork:
        tasks = [Task(lesson, training_seed(self._key, *segment.key)) for segment, lesson in lessons]
        return ShardWork(
            shard, partial(self._held.head_blob, shard), tasks, partial(self._held.current, shard, changes)
        )

    def _identity(self, recipe: bytes, segment: Segment, lesson: Lesson) -> bytes:
        """Of the sub-model that follows a shard's head: all that it is made of."""
        head, seed = self._held.memory.head(segment.key.shard), training_seed(self._key, *segment.key)
        rehearsed = digest(*(upload.names(held) for upload, held in lesson.rehearsed)) if lesson.rehearsed else NONE
        return sha256(recipe + seed + (head.identity if head else NONE) + segment.manifest + rehearsed).digest()

    # The same from scratch, for whoever verifies

    def chains(self, learner: Learner, shards: Collection[int] | None = None) -> list[Chain]:
        """What is needed to verify each shard by replay: retained data, seeds, and what is stored.

        Each shard is shown as it was at one moment. What is evicted while it is read is left out: there is nothing to
        compare any more.
        """
        held = self._held
        with held.lock:
            wanted = [shard for shard in held.ledger.shards() if shards is None or shard in shards]
        return [chain for shard in wanted if (chain := self._chain(learner, shard)).lessons]

    def _chain(self, learner: Learner, shard: int) -> Chain:
        held = self._held
        while True:
            with held.lock:
                since, reloads = held.changes, held.reloads
                sub_models = [held.memory[key] for key in held.memory.stored_of(shard)]
                lessons = [lesson for _, lesson in self._rehearsal.lessons(held.ledger.lineage(shard), None)]
            # one by one: others have their turn in between
            stored = {each.key: found for each in sub_models if (found := self._stored(each)) is not None}
            if held.current(shard, since) and held.reloads == reloads:
                newest = max(stored, default=None)  # what comes after it may not be trainable, and is not compared
                lessons = [each for each in lessons if newest is not None and each.segment <= newest]
                return Chain(
                    learner,
                    [(each, training_seed(self._key, *each.segment), stored.get(each.segment)) for each in lessons],
                )

    def _stored(self, sub_model: SubModel) -> tuple[str, bytes] | None:
        """The environment and the bytes of a sub-model; None if it is not there any more."""
        memory = self._held.memory
        with self._held.lock:
            while sub_model.key in memory and memory[sub_model.key] == sub_model:
                try:
                    return sub_model.environment, memory.shelf.get(sub_model.key)
                except DamageError:
                    if not self._held.look():  # a reader's: the process that writes may have evicted it
                        raise
            return None

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _turn=RLock())
