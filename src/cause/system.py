"""CAUSE: learn and forget, exactly, in a bounded memory (the paper's Algorithm 3)."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import groupby
from secrets import token_hex
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause import positions as pos
from cause.arrays import ArrayUpload
from cause.controller import ShardController
from cause.errors import BudgetError, Cancelled, CauseError, DamageError, InputError, RequestError
from cause.executors import Executor, Here, Processes, ShardWork, Task
from cause.journal import Journal
from cause.keyed import derive, digest, root_key, training_seed
from cause.learners import Learner
from cause.ledger import Ledger, MemoryLedger, Segment, Selection
from cause.memory import POLICIES, Memory, PolicySetting, Shelf, SubModel
from cause.partition import PARTITIONERS, Arrivals, Assignment
from cause.plan import ShardPlan, plan
from cause.positions import Positions
from cause.presets import FIXED, System, parse_system
from cause.progress import Progress, Tally, Watch
from cause.registry import check_choice
from cause.rehearsal import Rehearsal
from cause.requests import Request, remaining, resolve, still_held
from cause.samples import Lesson, Piece, SegmentKey, Upload
from cause.units import format_bytes, parse_bytes
from cause.verify import Chain, Verification, verify
from cause.voting import VOTES, Labels

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from os import PathLike

    from cause.energy.model import EnergyModel
    from cause.home import Home
    from cause.home.inbox import Called
    from cause.home.receipts import Bundle
    from cause.home.status import Status

ENDLESS = 2**62
REPAIRS = ("now", "later")
NONE = bytes(32)
"""In an identity, where a digest of 32 bytes stands for what is not there."""
LONGEST_USER_ID = 256
MOST_CLASSES = 1_000_000
CLASSES = 10
"""When nobody says how many: the paper's data sets have so many."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What a round did."""

    round: int
    active_shards: int
    trained: tuple[SegmentKey, ...]
    samples: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A sub-model that votes, and how many retained samples are behind it."""

    sub_model: SubModel
    weight: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A round that was taken in and is not trained yet."""

    round: int
    active_shards: int
    users: int
    samples: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a request, or a batch of them, did."""

    requests: tuple[Request, ...]
    shards: tuple[ShardPlan, ...]
    dropped: tuple[SegmentKey, ...]
    rsn: int
    ids: tuple[str, ...] = ()


class Cause:
    """A device that learns round after round and forgets on request.

    After any sequence of both, every sub-model is what it would be had the forgotten samples never been there. It
    lives in memory, or in a home on the disk: `Cause("device/", learner=…)` makes one, or opens it again.

    Examples
    --------
    >>> from cause.learners import CountingLearner
    >>> from cause.samples import Part, TraceUpload
    >>> device = Cause(learner=CountingLearner(), system="cause-no-sc", shards=2, slots=4)
    >>> device.learn([TraceUpload("alice", 1, (Part(30),)), TraceUpload("bob", 1, (Part(20),))]).samples
    50
    >>> device.learn([TraceUpload("alice", 2, (Part(10),))]).trained == (device.memory.head(
    ...     device.ledger.placement("alice")).key,)
    True
    >>> device.forget("alice", rounds=[1], count=5)[0].rsn  # the 25 left of round 1, and round 2
    35
    """

    def __init__(
        self,
        home: "str | PathLike[str] | None" = None,
        *,
        learner: Learner | None = None,
        system: System | str | None = None,
        shards: int | None = None,
        memory: str | int | None = None,
        slots: int | None = None,
        classes: int | None = None,
        seed: int | None = None,
        key: Mapping[str, Any] | None = None,
        read_only: bool = False,
        ledger: Ledger | None = None,
        shelf: Shelf | None = None,
        journal: Journal | None = None,
        workers: int | None = None,
        executor: Executor | None = None,
        watch: Watch | None = None,
        **bounds: Any,
    ) -> None:
        self.watch = watch
        self.home: Home | None = None
        self._repair = "now"
        if home is not None:
            from cause.home import attach

            wanted = {"system": system, "shards": shards, "memory": memory, "slots": slots, "classes": classes}
            wanted |= {"seed": seed, "workers": workers, **bounds}
            self.home, settings, learner = attach(home, learner, wanted, key, read_only=read_only)
            system, shards, memory, slots = settings.system, settings.shards, settings.memory, settings.slots
            classes, seed, workers = settings.classes, settings.seed, settings.workers
            self._repair = settings.repair
            ledger, shelf, journal = self.home.ledger, self.home.shelf, self.home
        elif bounds or key is not None or read_only:
            raise InputError(f"{next(iter(bounds), 'key')!r} is for a device with a home: Cause('device/', …)")
        if learner is None:
            raise InputError("a device needs a learner")
        try:
            self._make(learner, system or "cause", shards, memory, slots, classes, seed or 0, ledger, shelf)
            self.executor: Executor = executor or (Processes(workers) if workers else Here())
            self.journal: Journal = journal or Journal()
            if self.home is not None:
                self._wake(self.home)
        except BaseException:
            if self.home is not None:
                self.home.close()
            raise

    def _make(
        self,
        learner: Learner,
        system: System | str,
        shards: int | None,
        memory: str | int | None,
        slots: int | None,
        classes: int | None,
        seed: int,
        ledger: Ledger | None,
        shelf: Shelf | None,
    ) -> None:
        self.system = system = parse_system(system)[1] if isinstance(system, str) else system
        self.learner = learner.composed(system)
        self.classes = _classes(classes, learner)
        self.ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._state = RLock()  # of ledger and memory; never held while something trains
        self._training = RLock()  # one replay at a time
        self._changes = 0  # grows with each deletion, and with each sub-model that is found damaged
        self._touched: dict[int, int] = {}  # by shard: the last of them that touched it
        self._reloaded = 0  # the last one after which nothing in memory was as before
        self._unserved = False  # whether a request was accepted and is not in effect
        self.controller = ShardController(
            4 if shards is None else shards, system.p, system.gamma if system.controlled else FIXED
        )
        self.partition = PARTITIONERS[system.partition]()
        self._root = root_key(seed)
        self._train_key = derive(self._root, "train")
        self.rehearsal = Rehearsal(system.rehearsal, derive(self._root, "rehearsal"))
        self.memory = self._make_memory("2GB" if memory is None else memory, slots, shelf)

    def _wake(self, home: "Home") -> None:
        """Go on where the home's last process stopped."""
        home.check_recipe(self.learner)
        home.memory = self.memory
        if home.read_only:
            home.refresh(self.memory)
        else:
            home.load(self.memory)
        self._unserved = not home.read_only
        self._resume()
        if not home.read_only:
            self._expire_staged()

    def _resume(self, *, lenient: bool = False) -> None:
        """Serve what was accepted and then kept from taking effect: by a crash, or by an error.

        Each for itself; an error of one is raised in the end, unless somebody who asks for another erasure is lenient.
        """
        if self._unserved and self.home is not None:
            if self.home.garbage:
                self._reload()  # what an error kept from being destroyed goes first
            failed: Exception | None = None
            for each, request in self.home.accepted():
                try:
                    self._take_effect([each], remaining(self.ledger, request))
                except Exception as error:
                    self._reload()  # or nothing goes on
                    failed = failed or error
            if failed is not None and not lenient:
                raise failed
            self._unserved = failed is not None

    def _make_memory(self, budget: str | int, slots: int | None, shelf: Shelf | None) -> Memory:
        policy, size = POLICIES[self.system.policy], self.learner.sub_model_bytes
        if slots is not None and slots < 1:
            raise InputError(f"the number of slots must be at least 1, not {slots}")
        budget_bytes = parse_bytes(budget) if slots is None else slots * size
        slots = budget_bytes // size if slots is None else slots
        if not policy.bounded:
            slots, budget_bytes = ENDLESS, ENDLESS * size
        heads = self.controller.most
        if slots < heads:
            raise BudgetError(
                f"the memory holds {slots} sub-models of {format_bytes(size)} ({format_bytes(budget_bytes)}), but "
                f"the heads of {heads} shards need {format_bytes(heads * size)}"
            )
        return Memory(
            policy(PolicySetting(slots, derive(self._root, "policy"))),
            slots=slots,
            budget_bytes=budget_bytes,
            samples_between=self._samples_between,
            shelf=shelf,
        )

    # Algorithm 3, lines 2 to 5: a round of learning

    def learn(
        self, uploads: Iterable[Upload] | Mapping[str, tuple[ArrayLike, ArrayLike]] = (), *, repair: str | None = None
    ) -> Learned:
        """One round: what arrived is partitioned, trained on and stored. An empty round counts.

        Uploads, or inputs and labels by user: `{"alice": (x, y)}`. Shards that wait for a repair are repaired on the
        way; with `repair="later"` they go on waiting, and what arrived for them waits with them.
        """
        repair = self._repair_or_default(repair)
        with self._state:
            t, active, arrived, waiting = self._arrive(uploads)
        self.expire(repair="later")  # before anything is trained on what goes
        trained, _ = self._catch_up(except_=waiting if repair == "later" else ())
        return Learned(t, active, tuple(trained), sum(len(u.positions) for u in arrived.values()))

    def _arrive(
        self, uploads: Iterable[Upload] | Mapping[str, tuple[ArrayLike, ArrayLike]]
    ) -> tuple[int, int, Mapping[str, Upload], list[int]]:
        self._resume()
        t, waiting = self.ledger.round + 1, self.waiting()
        if isinstance(uploads, Mapping):
            for user in uploads:
                check_user(user)
            uploads = [ArrayUpload(user, t, x, y) for user, (x, y) in uploads.items()]
        arrived = _checked(uploads, t)
        for upload in arrived.values():
            self.learner.check(upload)
        active = self.controller.at(t)
        assigned = self._partition(t, active, arrived)
        segments = self._segments(t, arrived, assigned)
        self.ledger.record(t, segments)
        return t, active, arrived, waiting

    def _partition(self, t: int, active: int, arrived: Mapping[str, Upload]) -> Mapping[str, Assignment]:
        placements = {user: self.ledger.placement(user) for user in arrived}
        staying = {user: shard for user, shard in placements.items() if shard is not None and shard < active}
        key = derive(self._root, "partition")
        return self.partition.assign(Arrivals(t, active, arrived, staying, key, self.classes))

    def _segments(
        self, t: int, arrived: Mapping[str, Upload], assigned: Mapping[str, Assignment]
    ) -> dict[SegmentKey, list[Piece]]:
        segments: dict[SegmentKey, list[Piece]] = {}
        for user, upload in arrived.items():
            by_shard = assigned[user]
            pieces: dict[int, Positions] = (
                {by_shard: upload.positions} if isinstance(by_shard, int) else pos.split(upload.positions, by_shard)
            )
            for shard, positions in pieces.items():
                if not 0 <= shard < self.controller.most:
                    raise InputError(f"user {user!r} was given shard {shard}, but there are {self.controller.most}")
                for slice_, part in self._sliced(upload, positions):
                    segments.setdefault(SegmentKey(shard, t, slice_), []).append(Piece(upload.keeping(part), part))
        return segments

    def _sliced(self, upload: Upload, positions: Positions) -> Iterable[tuple[int, Positions]]:
        if self.system.slices == 1:
            return ((0, positions),)
        hashes = upload.hashes(derive(self._root, "slice"), positions)
        return pos.split(positions, hashes % self.system.slices).items()

    # Uploads that come one by one: they wait, sealed and durable, until a round takes all of them in

    def stage(self, user: str, x: ArrayLike, y: ArrayLike, *, call: str | None = None) -> "Called":
        """Keep an upload for the next round that `close_round` makes. The same call a second time changes nothing."""
        check_user(user)
        with self._state:
            self._resume()
            self._expire_staged()  # where no round is closed, nobody else does
            self.learner.check(ArrayUpload(user, self.ledger.round + 1, x, y))
            return self._home().inbox.stage(token_hex(16) if call is None else call, user, x, y)

    def close_round(self, *, call: str | None = None) -> Arrived:
        """Make a round of all that is staged, durably; nothing is trained yet: `catch_up` does."""
        home = self._home()
        with self._state:
            self._resume()  # before it is looked at what waits: some of it may be asked to go
            found = None if call is None else home.inbox.called(call)
            if found is not None and found.round is not None:
                return Arrived(found.round, self.controller.at(found.round), 0, found.samples)
            self._expire_staged()
            with home.inbox.closing(call) as uploads:
                try:
                    t, active, arrived, _ = self._arrive(uploads)
                except InputError:
                    raise
                except BaseException:
                    self._reload()
                    raise
        self.expire(repair="later")  # before anything is trained on what goes
        return Arrived(t, active, len(arrived), sum(len(u.positions) for u in arrived.values()))

    def catch_up(self, *, stop: Callable[[], bool] | None = None, except_: Sequence[int] = ()) -> tuple[int, int]:
        """Train what waits but for some shards; how many segments, and how many samples again. See `repair`.

        A shard of which something is forgotten meanwhile is left for the next call; the others are trained to their
        end.
        """
        self.resume()
        trained, rsn = self._catch_up(stop, except_, once=True)
        return len(trained), rsn

    def resume(self) -> None:
        """Let take effect what was accepted and then kept from it by an error."""
        with self._state:
            self._resume()

    def _home(self) -> "Home":
        if self.home is None:
            raise InputError("samples are staged in a home: Cause('device/', …)")
        return self.home

    # Algorithm 3, lines 6 to 12: requests

    def forget(
        self,
        user: str,
        *,
        rounds: Iterable[int] | None = None,
        count: int | None = None,
        samples: Iterable[tuple[int, int]] | None = None,
        repair: str | None = None,
    ) -> list[Forgotten]:
        """Forget a user's everything, some rounds, the lowest `count` samples of a round, or named samples.

        When this returns, samples and tainted sub-models are destroyed, and the shards vote with their newest clean
        sub-model, if they have one. With `repair="later"` the replay waits for `repair()`; "now" is the default, unless
        the home was made with another.
        """
        chosen = None if rounds is None else tuple(rounds)
        named = None if samples is None else tuple(samples)
        return self.serve([Request(user, chosen, count, named)], repair=repair)

    def expire(self, *, repair: str = "now") -> Forgotten | None:
        """Forget what is older than the home keeps samples: all of it at once. `learn` does it in each round.

        What is staged and has waited for longer goes too; nothing has learned from it, so there is no request of it.
        """
        with self._state:  # nobody else forgets any of it between the choice and its end
            self._resume()
            self._expire_staged()
            requests = self.journal.expired()
            if not requests:
                return None
            (done,) = self._serve(requests, "later", together=True)
        return replace(done, rsn=self._catch_up()[1]) if repair == "now" else done

    def _expire_staged(self) -> None:
        if self.home is not None:
            try:
                self.home.inbox.expire()
            except BaseException:
                self._reload()
                raise

    def serve(self, requests: Sequence[Request], *, repair: str | None = None) -> list[Forgotten]:
        """Serve all requests that wait: one by one, or coalesced into one replay for each shard."""
        repair = self._repair_or_default(repair)
        if not requests:
            raise RequestError("nothing to forget: no request was made")
        return self._serve(requests, repair, together=self.system.requests == "coalesced")

    def erase(self, requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[Forgotten]:
        """Let requests take effect at once, one after the other, and leave the repair for later.

        A request for everything of a user of whom nothing is held is served like any other, so that its answer does
        not tell whether there was anything.
        """
        return self._serve(requests, "later", together=False, ids=ids, lenient=True)

    def _resolved(self, requests: Sequence[Request], lenient: bool) -> list[Selection]:
        """Who has nothing in a round yet may have something staged."""
        none = [
            request.everything
            and not self.ledger.rounds_of(request.user)
            and (lenient or self.journal.staged(request.user) > 0)
            for request in requests
        ]
        found = iter(resolve(self.ledger, [each for each, absent in zip(requests, none, strict=True) if not absent]))
        return [{} if absent else next(found) for absent in none]

    def _serve(
        self,
        requests: Sequence[Request],
        repair: str,
        *,
        together: bool,
        ids: Sequence[str] | None = None,
        lenient: bool = False,
    ) -> list[Forgotten]:
        with self._state:  # nobody else's request comes between the choice of the samples and their end
            self._resume(lenient=True)
            selections = self._resolved(requests, lenient)
            ids = self.journal.accept(requests, ids)
            try:
                batches = [([each], [asked], own) for each, asked, own in zip(ids, requests, selections, strict=True)]
                if together:
                    batches = [(ids, list(requests), _merged(selections))]
                first = self._take_effect(batches[0][0], batches[0][2])
            except BaseException:
                self._unserved = True
                raise
        try:
            return [
                self._answer(own, asked, self._take_effect(own, chosen) if number else first, repair)
                for number, (own, asked, chosen) in enumerate(batches)
            ]
        except BaseException:
            self._unserved = True
            raise

    def _repair_or_default(self, repair: str | None) -> str:
        repair = repair or self._repair
        check_choice("repair", repair, REPAIRS)
        return repair

    def _answer(
        self,
        ids: Sequence[str],
        requests: Sequence[Request],
        effect: tuple[list[ShardPlan], list[SegmentKey]],
        repair: str,
    ) -> Forgotten:
        rsn = self._catch_up()[1] if repair == "now" else 0
        return Forgotten(tuple(requests), tuple(effect[0]), tuple(effect[1]), rsn, tuple(ids))

    def plan(self, *requests: Request) -> list[ShardPlan]:
        """What serving these requests together would touch and cost. Changes nothing."""
        with self._state:
            return self._plan(_merged(resolve(self.ledger, requests)))

    def _plan(self, selection: Selection) -> list[ShardPlan]:
        return plan(self.ledger, self.memory, selection, self.rehearsal.share)

    def _take_effect(self, ids: Sequence[str], selection: Selection) -> tuple[list[ShardPlan], list[SegmentKey]]:
        """From here on nothing that is stored or served has seen the samples; nothing is trained yet."""
        with self._state:
            selection = still_held(self.ledger, selection)  # somebody else may have asked for some of it meanwhile
            plans = self._plan(selection)
            if plans:
                touched = {each.shard for each in plans}
                self._touch(touched)
                self.executor.cancel(touched)  # what is being trained there may have seen them
            try:
                self.ledger.delete(selection)
                dropped = [key for shard in plans for key in self.memory.drop_from(shard.first)]
                self.journal.effect(ids, selection, plans, dropped)
            except BaseException:
                self._reload()
                raise
        return plans, dropped

    def _touch(self, shards: Iterable[int]) -> None:
        """Whatever was begun on these shards before starts again."""
        self._changes += 1
        self._touched.update(dict.fromkeys(shards, self._changes))

    def _reload(self) -> None:
        """After an error: what is on the disk decides."""
        if self.home is not None:
            self._changes += 1
            self._reloaded = self._changes
            self.home.load(self.memory)

    # Training, first time and replay alike: every segment after a shard's head, in order

    def repair(self, *, stop: Callable[[], bool] | None = None) -> int:
        """Train whatever waits: what was forgotten with `repair="later"`, what an interrupted call left undone, and
        rounds that arrived meanwhile, in one replay for each shard; how many samples were trained again.

        `stop` is asked after each segment; what is left then waits on.
        """
        with self._state:
            self._resume()
        return self._catch_up(stop)[1]

    def waiting(self) -> list[int]:
        """The shards whose head is not their newest segment: they serve below strength, or not at all."""
        with self._state:
            return [shard for shard in self.ledger.shards() if not self._up_to_date(shard)]

    def _up_to_date(self, shard: int) -> bool:
        head = self.memory.head(shard)
        return head is not None and head.key == self.ledger.lineage(shard).last

    def _catch_up(
        self, stop: Callable[[], bool] | None = None, except_: Sequence[int] = (), *, once: bool = False
    ) -> tuple[list[SegmentKey], int]:
        """Train every shard whose head is not its newest segment, ascending; what was trained, and the RSN."""
        trained: list[SegmentKey] = []
        rsn = 0
        with self._training:
            stopped, again = False, True
            while again and not stopped:
                left: set[int] = set()
                try:
                    for key, retrained in self._train(except_, left):
                        trained.append(key)
                        rsn += retrained
                        stopped = stop is not None and stop()
                        if stopped:
                            break
                    again = bool(left)  # forgotten meanwhile, or found damaged: that starts again
                except Cancelled:
                    again = True
                if again and not stopped:
                    stopped = once or (stop is not None and stop())
            with self._state:
                self.journal.caught_up(self.waiting())
        return trained, rsn

    def _train(self, except_: Sequence[int], left: set[int]) -> Generator[tuple[SegmentKey, int], None, None]:
        """One pass over what waits; each segment once it is stored, and how many samples were trained again.

        Shards that were touched meanwhile, and so are not done, are added to `left`.
        """
        with self._state:
            changes = self._changes
            shards = [shard for shard in self.ledger.shards() if shard not in except_]
            lessons = [pair for shard in shards for pair in self._behind(shard)]
        work = [
            self._work(shard, list(own), changes) for shard, own in groupby(lessons, key=lambda pair: pair[0].key.shard)
        ]
        tally = Tally({segment.key: lesson.total for segment, lesson in lessons}, self.watch)
        recipe = digest("recipe", self.learner.recipe_digest, self.learner.environment)

        def told(segment: SegmentKey, epoch: int, epochs: int) -> None:
            if not self.current(segment.shard, changes):
                raise Cancelled("the data was forgotten while it was trained on")
            tally.told(segment, epoch, epochs)

        with closing(self.executor.train(self.learner, work, told)) as blobs:
            for (segment, lesson), blob in zip(lessons, blobs, strict=True):
                with self._state:
                    if blob is None or not self.current(segment.key.shard, changes):
                        left.add(segment.key.shard)
                        continue
                    retrained = lesson.total if segment.trained else 0
                    try:
                        self._admit(recipe, segment, lesson, blob)
                        segment.trained = True
                        self.journal.trained(segment.key, retrained)
                    except BaseException:
                        self._reload()
                        raise
                yield segment.key, retrained

    def _behind(self, shard: int) -> Iterable[tuple[Segment, Lesson]]:
        """The segments after a shard's head, with what is to be learned from each."""
        if self._up_to_date(shard):
            return ()
        head = self.memory.head(shard)
        return self.rehearsal.lessons(self.ledger.lineage(shard), head.key if head else None)

    def _work(self, shard: int, lessons: Sequence[tuple[Segment, Lesson]], changes: int) -> ShardWork:
        tasks = [Task(lesson, training_seed(self._train_key, *segment.key)) for segment, lesson in lessons]
        return ShardWork(shard, partial(self._head_blob, shard), tasks, partial(self.current, shard, changes))

    def current(self, shard: int, since: int) -> bool:
        """Whether nothing of a shard was forgotten or found damaged since so many `changes`."""
        return max(self._touched.get(shard, 0), self._reloaded) <= since

    def _head_blob(self, shard: int) -> bytes | None:
        with self._state:
            head = self.memory.head(shard)
            return None if head is None else self._load(head.key)

    def _load(self, key: SegmentKey) -> bytes:
        """A stored sub-model. A damaged one leaves the memory: the shard falls back, and repair makes it again."""
        try:
            return self.memory.shelf.get(key)
        except DamageError:
            if self._look():
                raise  # it was destroyed meanwhile, by the process that writes
            self._touch([key.shard])  # whoever counts on it starts again
            self.memory.discard(key)
            self.journal.discarded(key)
            raise

    def _admit(self, recipe: bytes, segment: Segment, lesson: Lesson, blob: bytes) -> None:
        head, seed = self.memory.head(segment.key.shard), training_seed(self._train_key, *segment.key)
        rehearsed = digest(*(upload.names(held) for upload, held in lesson.rehearsed)) if lesson.rehearsed else NONE
        identity = sha256(recipe + seed + (head.identity if head else NONE) + segment.manifest + rehearsed).digest()
        size_bytes = self.learner.stored_bytes(blob)
        self.memory.admit(SubModel(segment.key, identity, size_bytes, self.learner.environment), blob)

    def _samples_between(self, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
        lineage = self.ledger.lineage(shard)
        return lineage.samples_upto(upto) - lineage.samples_upto(after)

    def verify(
        self,
        receipt: "int | str | Bundle | None" = None,
        *,
        processes: int = 1,
        progress: Progress | None = None,
        began: "Callable[[ProcessPoolExecutor], None] | None" = None,
    ) -> Verification:
        """Train again from the retained data alone, in fresh processes, and compare the bits of what is stored.

        With a receipt (its number, its request's id, or a bundle from elsewhere): its signature, its place in the log,
        what it commits to, and then the shards it speaks of. A signature or a proof that does not hold is an error.
        """
        if receipt is None:
            return verify(self, processes=processes, progress=progress, began=began)
        if self.home is None:
            raise InputError("receipts are for a device with a home: Cause('device/', …)")
        with self._state:
            told = self.home.receipts.checked(receipt)
        touched = {shard["shard"] for shard in told["shards"]}
        found = verify(self, shards=touched, processes=processes, progress=progress, began=began)
        with self._state:
            wrong, superseded = self.home.receipts.held(told)
        return replace(found, wrong=wrong, superseded=superseded)

    def chains(self, shards: Collection[int] | None = None) -> list[Chain]:
        """What is needed to verify each shard by replay: retained data, seeds, and what is stored.

        Each shard is shown as it was at one moment. What is evicted while it is read is left out: there is nothing to
        compare any more.
        """
        with self._state:
            wanted = [shard for shard in self.ledger.shards() if shards is None or shard in shards]
        return [chain for chain in map(self._chain, wanted) if chain.lessons]

    def _chain(self, shard: int) -> Chain:
        while True:
            with self._state:
                since, sub_models = self._changes, [self.memory[key] for key in self.memory.stored_of(shard)]
                lessons = list(self.rehearsal.lessons(self.ledger.lineage(shard), None))
            # one by one: others have their turn in between
            stored = {each.key: found for each in sub_models if (found := self._stored(each)) is not None}
            if self.current(shard, since):
                seeds = [training_seed(self._train_key, *segment.key) for segment, _ in lessons]
                told = zip(lessons, seeds, strict=True)
                return Chain(self.learner, [(lesson, seed, stored.get(lesson.segment)) for (_, lesson), seed in told])

    def _stored(self, sub_model: SubModel) -> tuple[str, bytes] | None:
        """The environment and the bytes of a sub-model; None if it is not there any more."""
        with self._state:
            if sub_model.key not in self.memory or self.memory[sub_model.key] != sub_model:
                return None
            return sub_model.environment, self.memory.shelf.get(sub_model.key)

    # Aggregation

    def heads(self) -> dict[int, SubModel]:
        """The sub-models that vote, by shard."""
        with self._state:
            found = {shard: self.memory.head(shard) for shard in self.memory.shards()}
        return {shard: head for shard, head in found.items() if head is not None}

    @property
    def state(self) -> RLock:
        """Hold it to look at ledger and memory while other threads may change them."""
        return self._state

    @property
    def changes(self) -> int:
        """Grows with each deletion and with each sub-model that is found damaged."""
        return self._changes

    def voters(self) -> list[Voter]:
        """The sub-models that vote at this moment."""
        with self._state:
            return [Voter(head, self._samples_between(shard, None, head.key)) for shard, head in self.heads().items()]

    def load(self, sub_model: SubModel) -> bytes | None:
        """A stored sub-model's bytes; None if it is no longer there, or damaged and so dropped."""
        with self._state:
            head = self.memory.head(sub_model.key.shard)
            if head != sub_model:
                return None
            try:
                return self._load(sub_model.key)
            except DamageError:
                return None

    def predict(self, x: Any) -> Labels:
        """The label that the heads agree on, for each sample of `x`."""
        weights, probabilities = self.votes(x)
        return VOTES[self.system.vote](probabilities, weights)

    def votes(self, x: Any) -> tuple[NDArray[np.float64], NDArray[np.floating]]:
        """Each head's weight (the samples behind it), and what it says: voter × sample × class."""
        self._look()
        weights, probabilities = [], []
        for shard in self.heads():
            found = self._vote_of(shard, x)
            if found is not None:
                weights.append(found[0])
                probabilities.append(found[1])
        if not weights:
            raise CauseError("nobody can vote: no shard has learned anything, or all of it was forgotten")
        return np.asarray(weights, dtype=np.float64), np.stack(probabilities)

    def _look(self) -> bool:
        """A device that only reads goes on with what its writer has done since; whether that was anything."""
        if self.home is None or not self.home.read_only:
            return False
        with self._state:
            return self.home.refresh(self.memory)

    def _vote_of(self, shard: int, x: Any) -> tuple[int, NDArray[np.floating]] | None:
        """Of one head, which is decoded for it alone: a small board need not hold all of them at once."""
        while True:
            with self._state:
                head = self.memory.head(shard)
                if head is None:
                    return None
                weight = self._samples_between(shard, None, head.key)
                try:
                    blob = self._load(head.key)
                except DamageError:
                    continue  # the one before it serves
            return weight, self.learner.predict(self.learner.decode(blob), x)

    def status(self, model: "EnergyModel | None" = None) -> "Status":
        """How a device with a home is: what serves, what waits, what repair will cost, what is due when."""
        from cause.home.status import status

        self._look()
        return status(self, model)

    def close(self) -> None:
        """End workers, and let go of files and locks."""
        self.executor.close()
        self.journal.close()

    def __getstate__(self) -> dict[str, Any]:
        """For a copy of a device in memory, as scikit-learn's tools make them; nothing here is stored this way."""
        if self.home is not None:
            raise InputError("a device with a home is not copied: its folder is what lasts, so open that again")
        return {name: part for name, part in vars(self).items() if name not in ("_state", "_training", "executor")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _state=RLock(), _training=RLock(), executor=Here())

    def __enter__(self) -> "Cause":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _classes(asked: int | None, learner: Learner) -> int:
    classes = (learner.classes or CLASSES) if asked is None else asked
    check_classes(classes)
    if learner.classes not in (None, classes):
        raise InputError(f"the device is to have {classes} classes, but its learner tells {learner.classes} apart")
    return classes


def check_classes(classes: int) -> None:
    """Refuse an absurd number of classes."""
    if not 1 <= classes <= MOST_CLASSES:
        raise InputError(f"the number of classes must be from 1 to {MOST_CLASSES:,}, not {classes}")


def check_user(user: Any) -> None:
    """Refuse what cannot be a user's id."""
    if not isinstance(user, str) or not 1 <= len(user) <= LONGEST_USER_ID:
        seen = f"one of {len(user)}" if isinstance(user, str) else repr(user)
        raise InputError(f"a user id is a text of 1 to {LONGEST_USER_ID} characters, not {seen}")
    if any("\ud800" <= character <= "\udfff" for character in user):
        raise InputError(f"a user id is a text that can be written in UTF-8, not {user!r}")


def _checked(uploads: Iterable[Upload], t: int) -> dict[str, Upload]:
    arrived: dict[str, Upload] = {}
    for upload in uploads:
        check_user(upload.user)
        if upload.round != t:
            raise InputError(f"user {upload.user!r} uploads for round {upload.round}, but this is round {t}")
        if not len(upload.positions):
            raise InputError(f"the upload of user {upload.user!r} in round {t} is empty")
        if upload.user in arrived:
            raise InputError(f"user {upload.user!r} uploads twice in round {t}")
        arrived[upload.user] = upload
    return dict(sorted(arrived.items()))


def _merged(selections: Sequence[Selection]) -> Selection:
    merged: dict[tuple[str, int], Positions] = {}
    for selection in selections:
        for where, doomed in selection.items():
            merged[where] = pos.union([merged.get(where, range(0)), doomed])
    return merged
