"""The additive law: one state, the sum of a function of one sample over all retained samples.

A round is added to the state, forgotten samples are subtracted from it. The sums are integers, so the state does not
depend on the order of either, and is bit for bit that of a device that never had the forgotten samples.

The live state is in memory; a stored one is a copy from which the next process goes on. A deletion destroys a stored
state that has seen the samples at once. The new one is stored later: when as many bytes of samples have changed as it
takes, and when the device is closed. After a crash the samples that no stored state holds are added up again.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from cause.common import positions as pos
from cause.common.hashing import digest
from cause.engine.chain import Chain
from cause.engine.executor import Executor
from cause.engine.learner import Learner, Predictor
from cause.engine.ledger import Segment, Selection
from cause.engine.memory import SubModel
from cause.engine.plan import ShardPlan
from cause.engine.progress import Tally, Watch
from cause.engine.quarantine import hits
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.engine.set_hash import SetHash
from cause.engine.state import State
from cause.engine.summing import SummingLearner
from cause.errors import BudgetError, CauseError, DamageError, error_name

SHARD = 0
"""The number of the only shard."""


class Adding:
    """Keeps one sum in step with the retained samples.

    Every change of the sum is made under the lock of the state, a segment at a time.

    Parameters
    ----------
    state
        Ledger and memory.
    learner
        Adds and subtracts samples.
    """

    def __init__(self, state: State, learner: SummingLearner) -> None:
        self._state, self._learner = state, learner
        self.failed: dict[int, Exception] = {}
        self.in_fresh_processes = False  # sums are the same in any process, and 10⁶ samples need not be sent there
        state.ledger.lists_digests = False  # identities need no manifests
        self.reset()

    def reset(self) -> None:
        """Discard the live state, and heads whose bytes would be made of it.

        The next call adds up again, from the stored state if there is one.
        """
        memory = self._state.memory
        for key in list(memory.stored_of(SHARD)):
            if memory.shelf.is_pending(key):
                memory.discard(key)
        self._sums: Any = None
        self._upto: SegmentKey | None = None  # the last segment that is in the state
        self._ids: SetHash | None = None  # of the samples in the state; None until it is needed
        self._identity = b""  # of the state
        self._basis: tuple[int, int] | None = None  # which loading of the ledger the state belongs to
        self._solution: _Solution | None = None
        self._unsaved = 0  # samples added or subtracted since a state was stored
        self._settled = False  # whether the journal knows that everything is up to date

    # Adding

    def check_capacity(self, samples: int) -> None:
        """Raise a `BudgetError` if sums over all samples and this many more could overflow."""
        held, most = self._state.ledger.lineage(SHARD).samples, self._learner.most_samples
        if held + samples > most:
            raise BudgetError(
                f"{samples:,} samples more than the {held:,} that are held: sums of this {self._learner.type_name} "
                f"hold {most:,} samples without an overflow; use fewer bits, or forget some"
            )

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
        """Add every segment that is not in the state; nothing is left out and nothing waits.

        Parameters
        ----------
        learner, executor, skip_shards, once
            Not used: sums are added up here and at once.
        watch
            Called after each segment.
        stop
            Called after each segment; if it returns true, the others wait for the next call.

        Returns
        -------
        tuple
            The added segments, and the RSN, which is 0.

        Raises
        ------
        CauseError
            If samples cannot be read.
        """
        added: list[SegmentKey] = []
        with self._state.lock:
            counts = {segment.key: segment.count for segment in self._missing()}
        tally = Tally(counts, watch)
        while True:
            with self._state.lock:
                segment = self._add_next()
                if segment is None:
                    self._finish()
                    break
            added.append(segment.key)
            counts.setdefault(segment.key, segment.count)  # it may have arrived meanwhile
            tally.record(segment.key, 1, 1)
            if stop is not None and stop():
                break
        return added, 0

    def _missing(self) -> Sequence[Segment]:
        """Return the segments that are not in the state; the caller holds the lock."""
        self._restore()
        return self._state.ledger.lineage(SHARD).after(self._upto)

    def _add_next(self) -> Segment | None:
        """Add the first segment that is not in the state, and return it; None if there is none."""
        missing = self._missing()
        if not missing:
            return None
        segment = missing[0]
        try:
            ids = self._set_hash()
            for piece in segment.pieces:
                self._learner.add(self._sums, piece)
            for piece_digest in segment.piece_digests:
                ids.add(piece_digest)
        except BaseException as error:
            self.reset()  # a part of the segment may be in the sums
            if isinstance(error, Exception):
                self.failed = {SHARD: error}
            raise
        self._upto, self._identity = segment.key, ids.value
        self._unsaved += segment.count
        segment.trained = True
        self._solution, self._settled = None, False
        return segment

    def _finish(self) -> None:
        """Let the state serve, store it if that is due, and record that nothing waits."""
        state = self._state
        self._serve()
        self.failed = {}
        if self._settled:
            return
        if self._unsaved * self._learner.recorded_bytes >= self._learner.sub_model_bytes:
            with suppress(CauseError):  # a full disk: what is not stored is added up again
                self._save()
            if self._sums is None:  # the ledger was loaded again
                return
        state.journal.caught_up(state.waiting())
        state.journal.failed({})
        self._settled = True

    def _restore(self) -> None:
        """Make sure that there is a live state: the newest stored one, or that of no samples."""
        state = self._state
        while self._sums is None or self._basis != state.load_version:
            self.reset()
            basis, head = state.load_version, state.memory.head(SHARD)
            if head is None:
                self._sums, self._basis = self._learner.empty(), basis
                return
            with suppress(DamageError):  # then it is removed, and the one before it is next
                self._sums, self._upto = self._learner.decode(state.load(head.key)), head.key
                self._identity, self._basis = head.identity, basis

    def _set_hash(self) -> SetHash:
        """Return the hash of the samples in the state, to be changed with it: its value is the state's identity.

        States that earlier versions stored have an identity of another form: theirs is computed from all samples, once.
        """
        if self._ids is None:
            if SetHash.is_value(self._identity):
                self._ids = SetHash(self._identity)
            else:
                lineage, upto = self._state.ledger.lineage(SHARD), self._upto
                segments = [] if upto is None else [*lineage.before(upto), lineage[upto]]
                self._ids = hash_of(self._learner.recipe_digest, segments)
        return self._ids

    # Serving and storing

    def _serve(self) -> None:
        """Make the live state the head, in memory; its bytes are stored later."""
        memory, last = self._state.memory, self._state.ledger.lineage(SHARD).last
        if last is None or self._upto != last:
            return
        head, identity = memory.head(SHARD), self._identity
        if head is not None and head.key == last and (head.identity == identity or not SetHash.is_value(head.identity)):
            return  # a state of an earlier version keeps its identity: it has the same sums, or it would be dropped
        older = list(memory.stored_of(SHARD))
        for key in older:
            if memory.shelf.is_pending(key) or memory.slots < 2:
                memory.discard(key)
        size, environment = self._learner.sub_model_bytes, self._learner.environment
        memory.admit(SubModel(last, identity, size, environment), self._encoded)
        if not memory.shelf.is_pending(last):  # it is stored already: the older states are no longer needed
            for key in older:
                if key in memory:
                    memory.discard(key)

    def _encoded(self) -> bytes:
        return self._learner.encode(self._sums)

    def _save(self) -> None:
        """Store the head's bytes, and delete an older stored state."""
        state, memory = self._state, self._state.memory
        head, shelf = memory.head(SHARD), memory.shelf
        if head is None or not shelf.is_pending(head.key):
            return
        try:
            shelf.write(head.key)
            older = [key for key in memory.stored_of(SHARD) if key != head.key]
            for key in older:
                memory.discard(key)
            state.journal.trained(head.key, older)
            self._unsaved = 0
        except BaseException:
            self.reset()
            state.reload()
            raise

    def close(self) -> None:
        """Store the state, unless the device only reads or the disk refuses: then it is added up again."""
        with self._state.lock, suppress(CauseError):
            if self._sums is not None and not self._state.read_only:
                self._save()

    # Forgetting

    def plan(self, selection: Selection) -> list[ShardPlan]:
        """Return what a deletion touches: nothing is trained again."""
        learned, _ = hits(self._state.ledger, selection)
        return [ShardPlan(SHARD, min(learned), None, (), sum(learned.values()), 0, 0)] if learned else []

    def delete(self, selection: Selection, plans: Sequence[ShardPlan]) -> list[SegmentKey]:
        """Subtract samples from the state, delete them, and drop the stored states that had seen them."""
        ledger, memory = self._state.ledger, self._state.memory
        self._solution, self._settled = None, False
        try:
            self._restore()
            self._subtract(selection)
        except CauseError:  # damaged samples cannot be subtracted: add up what is left, after the deletion
            self.reset()
        ledger.delete(selection)
        dropped = [key for shard_plan in plans for key in memory.drop_from(shard_plan.first)]
        if self._sums is not None and plans:
            self._upto = ledger.lineage(SHARD).newest_upto(self._upto)
            self._serve()
        return dropped

    def _subtract(self, selection: Selection) -> None:
        ids = self._set_hash()
        for (user, round_), positions in selection.items():
            for key, (upload, held) in self._state.ledger.held_pieces(user, round_):
                chosen = pos.common(held, positions)
                if len(chosen) and self._upto is not None and key <= self._upto:
                    self._learner.subtract(self._sums, Piece(upload, chosen))
                    self._unsaved += len(chosen)
                    ids.remove(digest(upload.names(held)))
                    if len(left := pos.minus(held, chosen)):
                        ids.add(digest(upload.names(left)))
        self._identity = ids.value

    def deleted(self) -> None:
        """Finish the repair: the state is whole when a forget returns."""
        try:
            while self._add_next() is not None:
                pass
            self._finish()
        except CauseError as error:  # the samples are gone all the same; `catch_up` tries again, and raises
            self.failed = {SHARD: error}
            with suppress(CauseError):
                self._state.journal.failed({SHARD: error_name(error)})

    # Predicting and verifying

    def prepare(self) -> None:
        """Add what is not in the state, so that predictions know every sample that is held."""
        with self._state.lock:
            while self._add_next() is not None:
                pass
            self._serve()

    def predictor(self, learner: Learner, head: SubModel) -> Predictor:
        """Return a function that predicts with the head; it solves the state at its first call."""
        if self._solution is None or self._solution.identity != head.identity:
            if self._sums is not None and (self._upto, self._identity) == (head.key, head.identity):
                state = self._learner.copied(self._sums)
            else:
                state = self._learner.decode(self._state.load(head.key))
            self._solution = _Solution(head.identity, self._learner, state)
        return self._solution

    def chains(self, learner: Learner, shards: Collection[int] | None = None) -> list[Chain]:
        """Return all samples and the states to compare their sums with: the stored ones, and the live one.

        Raises
        ------
        DamageError
            If a stored state cannot be read.
        """
        if shards is not None and SHARD not in shards:
            return []
        with self._state.lock:
            self.prepare()
            memory, lineage = self._state.memory, self._state.ledger.lineage(SHARD)
            links: list[tuple[Lesson, bytes, tuple[str, bytes] | None]] = []
            before: SegmentKey | None = None
            for key in memory.stored_of(SHARD):
                segments = [segment for segment in lineage.after(before) if segment.key <= key]
                lesson = _lesson(key, segments)
                links.append((lesson, b"", (memory[key].environment, memory.shelf.get(key))))
                before = key
            if links and self._upto is not None:
                live = self._learner.environment, self._encoded()
                if live != links[-1][2]:
                    links.append((_lesson(self._upto, []), b"", live))
            return [Chain(self._learner, links, self._learner.environment)] if links else []

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_solution"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _solution=None)


class _Solution:
    """Predicts with a state, which is solved at the first call, outside the lock of the device."""

    def __init__(self, identity: bytes, learner: SummingLearner, state: Any) -> None:
        self.identity, self._learner = identity, learner
        self._state: Any | None = state
        self._lock = threading.Lock()

    def __call__(self, x: Any) -> Any:
        with self._lock:
            if self._state is not None:
                self._predictor = self._learner.predictor(self._state)
                self._state = None
        return self._predictor(x)


def hash_of(recipe: bytes, segments: Iterable[Segment]) -> SetHash:
    """Return the hash of the samples of segments: its value is the identity of a state that has added them up.

    Parameters
    ----------
    recipe
        The digest of the learner's recipe, which belongs to the identity.
    segments
        The samples. A piece, one user's samples in a segment, is an element of the set.
    """
    made = SetHash()
    made.add(digest("additive", recipe))
    for segment in segments:
        for piece_digest in segment.piece_digests:
            made.add(piece_digest)
    return made


def _lesson(key: SegmentKey, segments: Sequence[Segment]) -> Lesson:
    pieces = tuple(piece for segment in segments for piece in segment.pieces)
    return Lesson(key, pieces, sum(segment.count for segment in segments))
