"""CAUSE: learn and forget, exactly, in a bounded memory (the paper's Algorithm 3)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from secrets import token_hex
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.common.names import check_user, normal_name
from cause.common.registry import check_choice
from cause.device.matching import Matched, Rows, forget_matching, match
from cause.device.recorded import requests_recorded, round_recorded, saying
from cause.device.rounds import begin
from cause.device.verify import Verification, verify
from cause.engine import ensemble
from cause.engine.adapted_learner import as_learner
from cause.engine.arguments import (
    DEVICE_ARGUMENTS,
    check_device,
    check_whole,
    handles_of,
    inputs_of,
    refuse_unknown,
    requests_of,
    rounds_of,
    samples_of,
    uploads_of,
)
from cause.engine.arrays import ArrayUpload
from cause.engine.arrivals import InputSpec, check_round, setting, spec_of
from cause.engine.chain import Chain
from cause.engine.checks import by_name, check_not_empty, checked_uploads
from cause.engine.engine import MEMORY, Engine
from cause.engine.executor import Executor
from cause.engine.journal import Journal
from cause.engine.law import default_shards, default_system
from cause.engine.learner import ADDITIVE, Learner, LearnerLike, warn_of_notes
from cause.engine.ledger import Ledger, Selection
from cause.engine.memory import Shelf, SubModel
from cause.engine.memory.sizing import ENDLESS
from cause.engine.plan import ShardPlan
from cause.engine.presets import System, parse_system
from cause.engine.progress import Progress, Watch
from cause.engine.quarantine import dropping
from cause.engine.requests import Request, merged, remaining, resolve
from cause.engine.results import Arrived, Effect, Forgotten, HeldSample, Learned, Voter
from cause.engine.samples import SegmentKey, Upload
from cause.engine.voting import VOTES, Labels
from cause.errors import InputError, RequestError
from cause.executors import Here, Processes
from cause.executors.spawning import refuse_rerun

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from os import PathLike

    from cause.device.energy.model import EnergyModel
    from cause.device.receipts.receipts import Bundle
    from cause.device.status import Status
    from cause.device.store.home import Home
    from cause.device.store.inbox import Called, Intake

__all__ = ["ENDLESS", "Arrived", "Cause", "Forgotten", "Learned", "Voter"]

REPAIRS = ("now", "later")


class Cause:
    """A device that learns round after round and forgets on request.

    After any sequence of both, every sub-model is bit for bit that of a device trained without the forgotten samples.
    A device lives in memory, or in a home on the disk: `Cause("device/", learner=…)` makes one, or opens it again.

    Parameters
    ----------
    home
        The folder of the home; None for a device in memory.
    learner
        Trains sub-models. A home whose `cause.toml` describes its learner needs none.
    system
        The composition, as a preset's name, a text such as `"cause:policy=cost"` or a `System`.
    shards
        The most shards that there will be.
    memory, slots
        The budget for sub-models, as bytes (`"2GB"`) or as a number of sub-models.
    classes
        How many classes there are; as many as the learner says unless it is given.
    seed
        All random choices follow from it.
    input_shape, input_dtype
        Shape and type of one input; those of the learner or of the first upload unless they are given.
    key
        Where the home's master key comes from, as in the table `[key]` of `cause.toml`.
    read_only
        Open a home beside the process that writes it. Every change is refused.
    ledger, shelf, journal
        Where a device without a home keeps samples and sub-models, and what writes its changes down.
    workers
        How many worker processes train; 0 trains in this process.
    executor
        Trains segments instead of `workers`.
    watch
        Called after each epoch of a training.
    **bounds
        Further settings of a home: `storage`, `retain`, `repair`, `deadline_days`.

    Raises
    ------
    InputError
        If an argument is not one that a device takes.
    HomeError
        If the home cannot be opened, is in use by another process, or was made with another learner.

    Examples
    --------
    >>> from cause.learners import CountingLearner
    >>> from cause.engine.samples import Part, TraceUpload
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
        learner: LearnerLike | None = None,
        system: System | str | None = None,
        shards: int | None = None,
        memory: str | int | None = None,
        slots: int | None = None,
        classes: int | None = None,
        seed: int | None = None,
        input_shape: Sequence[int] | None = None,
        input_dtype: str | None = None,
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
        refuse_rerun()
        check_device(home, learner, system)
        check_whole(shards=shards, slots=slots, classes=classes, seed=seed, workers=workers)
        trainer = None if learner is None else as_learner(learner)
        self.watch = watch
        self.home: Home | None = None
        self._repair = "now"
        if home is not None:
            from cause.device.attach import attach

            bounds |= {"input_shape": None if input_shape is None else tuple(input_shape), "input_dtype": input_dtype}
            arguments = {"system": system, "shards": shards, "memory": memory, "slots": slots, "classes": classes}
            arguments |= {"seed": seed, "workers": workers, **bounds}
            self.home, settings, trainer = attach(home, trainer, arguments, key, read_only=read_only)
            system, shards, memory, slots = self.home.system, settings.shards, settings.memory, settings.slots
            classes, seed, workers = settings.classes, settings.seed, settings.workers
            input_shape, input_dtype, self._repair = settings.input_shape, settings.input_dtype, settings.repair
            ledger, shelf, journal = self.home.ledger, self.home.shelf, self.home
        elif bounds or key is not None or read_only:
            refuse_unknown("Cause", bounds, DEVICE_ARGUMENTS)
            raise InputError(f"{next(iter(bounds), 'key')!r} is for a device with a home: Cause('device/', …)")
        if trainer is None:
            raise InputError("a device needs a learner")
        self._inputs = setting(input_shape, input_dtype)
        try:
            system = parse_system(system or default_system(trainer))[1] if not isinstance(system, System) else system
            self.engine = Engine(
                trainer,
                system,
                executor or (Processes(workers) if workers else Here()),
                shards=default_shards(trainer) if shards is None else shards,
                memory=MEMORY if memory is None else memory,
                slots=slots,
                classes=classes,
                seed=seed or 0,
                ledger=ledger,
                shelf=shelf,
                storage=self.home,
                journal=journal,
            )
            self.ledger, self.memory, self.system = self.engine.ledger, self.engine.memory, self.engine.system
            self.classes, self.controller, self.held = self.engine.classes, self.engine.controller, self.engine.state
            self._unserved = False  # whether a request was accepted and is not in effect
            if self.home is not None:
                self._wake(self.home)
            else:
                warn_of_notes(self.learner, stacklevel=3)
        except BaseException:
            if self.home is not None:
                self.home.close()
            raise

    def _wake(self, home: "Home") -> None:
        """Load the home, and finish what its last process was stopped in."""
        home.check_recipe(self.learner)
        home.memory = self.memory
        if home.read_only:
            home.refresh(self.memory)
        else:
            home.load(self.memory)
        self._unserved = not home.read_only
        self._resume()
        if not home.read_only:
            if not home.accepted():  # requests may name samples by positions that an upgrade changes
                home.upgrade()
            self._expire_staged()

    def _resume(self, *, lenient: bool = False) -> None:
        """Serve the requests that were accepted and that a crash or an error kept from taking effect, one by one.

        If some fail, the others are served all the same, and then the first error is raised; with `lenient` none is.
        """
        if self._unserved and self.home is not None:
            if self.home.garbage:
                self.held.reload()  # what an error kept from being destroyed goes first
            failed: Exception | None = None
            for id_, request in self.home.accepted():
                try:
                    self._delete([id_], remaining(self.ledger, request))
                except Exception as error:
                    self.held.reload()  # the next request needs what is on the disk
                    failed = failed or error
            if failed is not None and not lenient:
                raise failed
            self._unserved = failed is not None

    # Algorithm 3, lines 2 to 5: a round of learning

    def learn(
        self,
        uploads: Iterable[Upload] | Mapping[str, tuple[ArrayLike, ArrayLike]] = (),
        *,
        repair: str | None = None,
        idempotency_key: str | None = None,
        empty: bool = False,
    ) -> Learned:
        """Learn a round: partition what arrived, record it, train on it and store the sub-models.

        An error after the round was recorded says so, in its text and as `error.recorded`.

        Parameters
        ----------
        uploads
            Inputs and labels by user: `{"alice": (x, y)}`; or uploads. Names are kept in Unicode's normal form C; white
            space at an edge and invisible characters are refused.
        repair
            Shards that wait for a repair are repaired on the way; with "later" they go on waiting, and what arrived for
            them waits with them.
        idempotency_key
            With a home, a text of up to 128 characters: the same key again takes nothing in a second time, for a week
            or until something of the round is forgotten; it goes on with the training instead. The same key with other
            samples is refused.
        empty
            A device with a home refuses an empty round unless it is asked for: each one makes all samples a round
            older, and `retain="2 rounds"` deletes what is too old. A device in memory keeps everything and takes one.

        Returns
        -------
        Learned
            The round, what was trained, and the handles of the samples.

        Raises
        ------
        InputError
            If an upload is not one that the device can take. Nothing was changed then.
        EmptyRoundError
            If there is nothing to learn from and `empty` is not set. Nothing was changed then.
        BudgetError
            If the samples need more room than the home has. Nothing was changed then.
        """
        repair, uploads = self._repair_or_default(repair), uploads_of(uploads)
        with self.lock:
            checked = self._checked(uploads)
            learned, waiting = begin(self, checked, idempotency_key, partial(self._arrive, empty=empty))
        with saying(round_recorded(learned.round, learned.samples)):
            expired = self.expire(repair="later")  # first: nothing is trained on samples that are about to be deleted
            trained, _ = self._train(except_=waiting if repair == "later" else ())
        return replace(learned, trained=tuple(trained), expired=0 if expired is None else expired.samples)

    def _arrive(
        self,
        uploads: Iterable[Upload]
        | Mapping[str, tuple[ArrayLike, ArrayLike]]
        | Mapping[str, tuple[ArrayLike, ArrayLike, Sequence[bytes]]],
        call: str | None = None,
        *,
        empty: bool = False,
        intake: "Intake | None" = None,
    ) -> tuple[int, int, Mapping[str, Upload], list[int]]:
        self._resume()
        t, waiting = self.ledger.round + 1, self.waiting()
        if isinstance(uploads, Mapping):
            uploads = [ArrayUpload(user, t, *arrays) for user, arrays in uploads.items()]
        arrived = checked_uploads(uploads, t)
        if self.home is not None:
            check_not_empty(arrived, t, empty=empty)
            arrived = {user: self.home.shuffled(upload) for user, upload in arrived.items()}
            brought = sum(len(upload.positions) for upload in arrived.values())
            write = partial(self.home.ledger.record, intake=intake or self.home.inbox.intake_of_call(call, brought))
            return t, self.engine.record(t, arrived, write), arrived, waiting
        return t, self.engine.record(t, arrived), arrived, waiting

    def _checked(self, uploads: Any) -> Any:
        """The uploads of a round in the form that the device keeps; see `cause.engine.arrivals.check_round`."""
        return check_round(uploads, self.inputs(), self.learner)

    def inputs(self) -> InputSpec:
        """Shape and type of the inputs that the device takes: as set, as the learner says, or as held samples have."""
        with self.lock:
            return spec_of(self._inputs, self.learner, self.ledger, self.journal.staged_kind)

    # Staging: uploads that come one by one wait, sealed and durable, until a round takes all of them in. Under the
    # additive law nothing waits: each call of `stage` is a round, and in effect when it returns

    def stage(self, user: str, x: ArrayLike, y: ArrayLike, *, call: str | None = None) -> "Called":
        """Keep an upload for the next round that `close_round` makes.

        Parameters
        ----------
        user
            Who uploads.
        x, y
            Inputs and labels.
        call
            An id of the call: the same id a second time changes nothing.

        Returns
        -------
        Called
            The id, how many samples are staged, and a handle for each row.

        Raises
        ------
        InputError
            If the device has no home, or cannot take the upload. Nothing was changed then.
        BudgetError
            If the samples need more room than the home has. Nothing was changed then.
        """
        (called,) = self.stage_all({user: (x, y)}, calls={} if call is None else {normal_name(user): call}).values()
        return called

    def stage_all(
        self, uploads: Mapping[str, tuple[ArrayLike, ArrayLike]], *, calls: Mapping[str, str] | None = None
    ) -> "dict[str, Called]":
        """Stage the uploads of several users, all of them or none; see `stage`.

        Parameters
        ----------
        uploads
            Inputs and labels by user.
        calls
            The ids of the calls of some of the users.

        Returns
        -------
        dict of Called
            What became of each upload, by user.
        """
        checked = self._checked(by_name(uploads))  # outside the lock: it takes long, and others would wait
        ids = {user: (calls or {}).get(user) or token_hex(16) for user in checked}
        with self.lock:
            self._resume()
            if self.learner.input_shape is None:
                for user, (x, _) in checked.items():
                    self.inputs().fitted(user, x)  # an upload of another shape may have come meanwhile
            self._expire_staged()  # where no round is ever closed, nothing else does it
            called = self._home().inbox.stage({user: (ids[user], x, y) for user, (x, y) in checked.items()})
            if self.learner.law != ADDITIVE:
                return called
            if self._home().inbox.uploads():  # nothing waits: every upload is a round, which is added at once
                self.close_round(expire=False)
        self._train()
        return called

    def close_round(self, *, call: str | None = None, expire: bool = True, empty: bool = False) -> Arrived:
        """Make a round of all staged uploads, durably. It is trained by the next call of `catch_up` or `repair`.

        Parameters
        ----------
        call
            An id of the call: the same id a second time changes nothing and returns the same round.
        expire
            Delete what is too old once the round is recorded; without it, call `expire`.
        empty
            Close a round also if nothing is staged.

        Returns
        -------
        Arrived
            The round, its active shards, and how many users and samples it took in.

        Raises
        ------
        EmptyRoundError
            If nothing is staged. `empty=True` closes an empty round all the same: it counts as any other, so every
            sample gets a round older (`status().retention` says what that deletes).
        """
        home = self._home()
        with self.lock:
            self._resume()  # first: an accepted request may name staged samples
            earlier = None if call is None else home.inbox.called(call)
            if earlier is not None and earlier.round is not None:
                return Arrived(earlier.round, self.controller.at(earlier.round), 0, earlier.samples)
            self._expire_staged()
            uploads, intake = home.inbox.contents_by_user(), home.inbox.intake(call)
            try:
                t, active, arrived, _ = self._arrive(uploads, empty=empty, intake=intake)
            except InputError:
                raise
            except BaseException:
                self.held.reload()
                raise
        samples = sum(len(u.positions) for u in arrived.values())
        if expire:
            with saying(round_recorded(t, samples)):
                self.expire(repair="later")  # first: nothing is trained on samples that are about to be deleted
        return Arrived(t, active, len(arrived), samples)

    def catch_up(self, *, stop: Callable[[], bool] | None = None, except_: Sequence[int] = ()) -> tuple[int, int]:
        """Train the shards that wait, once each.

        A shard of which something is forgotten meanwhile is left for the next call; the others are trained to their
        end.

        Parameters
        ----------
        stop
            Called after each segment; if it returns True, the rest is left for the next call.
        except_
            Shards that are not trained.

        Returns
        -------
        How many segments were trained, and how many samples were trained again.
        """
        self.resume()
        trained, rsn = self._train(stop, except_, once=True)
        return len(trained), rsn

    def resume(self) -> None:
        """Serve the requests that were accepted and that an error kept from taking effect; raise the first error."""
        with self.lock:
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
        rounds: Iterable[int] | int | None = None,
        count: int | None = None,
        samples: Iterable[tuple[int, int]] | None = None,
        handles: Iterable[str] | str | None = None,
        matching: Rows | None = None,
        repair: str | None = None,
        nonce: str | None = None,
    ) -> list[Forgotten]:
        """Forget a user's everything, some rounds, a part of a round, or single samples.

        When this returns, samples and tainted sub-models are destroyed, and the shards vote with their newest clean
        sub-model, if they have one. An error after the request was accepted says so (`error.recorded`).

        Parameters
        ----------
        user
            Whose samples: under every stored name that is the same in normal form (`cause.common.names.fold`).
        rounds, count
            Of which rounds; with `count` the lowest positions of one round, so many.
        samples
            Pairs of (round, position). A position is *not* the number of a row in the upload: in a home it is a random
            number, in memory a rank by digest.
        handles
            What `learn` and `stage` answered with for each row, and `samples_of` lists.
        matching
            Inputs, or (inputs, labels): all samples of the user that equal one of these rows, which are kept nowhere.
        repair
            With "later" the replay waits for `repair()`; "now" is the default, unless the home was made with another.
        nonce
            A random text of up to 128 characters that the receipts commit to: its sender can prove which are theirs.

        Raises
        ------
        RequestError
            If nothing is held of the user, or not all that was named. Nothing was changed then.
        """
        if matching is not None:
            return forget_matching(self, user, matching, (rounds, count, samples, handles), repair, nonce)
        named = Request(user, rounds_of(rounds), count, samples_of(samples), handles_of(handles), nonce)
        return self.serve([named], repair=repair)

    def serve(
        self,
        requests: Sequence[Request],
        *,
        repair: str | None = None,
        together: bool | None = None,
        ids: Sequence[str] | None = None,
        lenient: bool = False,
    ) -> list[Forgotten]:
        """Forget what these requests name. `forget`, `drop` and `expire` call this.

        The requests are recorded durably; then samples and tainted sub-models are deleted; then the shards are trained
        again.

        Parameters
        ----------
        requests
            What to forget; all of it is looked up before anything is changed.
        repair
            "now" trains what is left at once; "later" leaves that to `repair`.
        together
            Whether one replay serves all of them; as the system says (`requests=coalesced`) unless it is given.
        ids
            The requests' ids; drawn at random unless they are given.
        lenient
            Serve a request for everything of an unknown user as any other, so that the answer does not tell whether
            the device held anything.

        Returns
        -------
        list of Forgotten
            One for each request, or one for all of them together.

        Raises
        ------
        RequestError
            If nothing is held of a user, or not all that was named. Nothing was changed then.
        """
        repair, requests = self._repair_or_default(repair), requests_of(requests, names=False)
        if not requests:
            raise RequestError("nothing to forget: no request was made")
        together = self.system.requests == "coalesced" if together is None else together
        in_effect: list[str] = []
        with self.lock:  # no other request may come between the choice of the samples and their deletion
            self._resume(lenient=True)
            requests = [replace(request, user=self.name_of(request.user)) for request in requests]
            selections = self._resolved(requests, lenient)
            accepted = ids = self.journal.accept(requests, ids)
            try:
                batches = [
                    ([id_], [request], selection)
                    for id_, request, selection in zip(ids, requests, selections, strict=True)
                ]
                if together:
                    batches = [(ids, list(requests), merged(selections))]
                with saying(requests_recorded(accepted, in_effect)):
                    first = self._delete(batches[0][0], batches[0][2])
            except BaseException:
                self._unserved = True
                raise
        try:
            with saying(lambda: requests_recorded(accepted, in_effect)):
                done = []
                for number, (batch_ids, batch, selection) in enumerate(batches):
                    effect = self._delete(batch_ids, selection) if number else first
                    in_effect += batch_ids
                    rsn = self._train()[1] if repair == "now" else 0
                    done.append(
                        Forgotten(
                            requests=tuple(batch), shards=effect.shards, dropped=effect.dropped, rsn=rsn,
                            ids=tuple(batch_ids), samples=effect.samples, staged=effect.staged,
                        )
                    )  # fmt: skip
                return done
        except BaseException:
            self._unserved = True
            raise

    def _delete(self, ids: Sequence[str], selection: Selection) -> Effect:
        effect, touched = self.engine.delete(ids, selection)
        if self.home is not None and touched:
            self.engine.executor.retire(touched)
        return effect

    def drop(self, upload: int, *, repair: str | None = None) -> Forgotten:
        """Forget the quarantined samples of an upload, by its number in `status().quarantined`.

        Raises
        ------
        RequestError
            If nothing of this upload is in quarantine. Nothing was changed then.
        """
        return self.serve([dropping(self.ledger, upload)], repair=repair)[0]

    def expire(self, *, repair: str = "now", trust_clock: bool = False) -> Forgotten | None:
        """Forget all samples that are older than the home keeps them (`retain`). `learn` does so in each round.

        Staged samples that are too old are deleted too. No sub-model has seen them, so no request records that.

        Parameters
        ----------
        repair
            "now" retrains what is left at once; "later" leaves that to `repair`.
        trust_clock
            Accept the wall clock's time after it jumped. Until then (`status().clock` says so) nothing is deleted by
            its age.

        Returns
        -------
        Forgotten or None
            What was forgotten; None if nothing was old enough.
        """
        check_choice("repair", repair, REPAIRS)
        with self.lock:  # no other request may come between the choice of the samples and their deletion
            self._resume()
            if trust_clock:
                self._home().trust_clock()
            self._expire_staged()
            requests = self.journal.expired()
            if not requests:
                return None
            (done,) = self.serve(requests, repair="later", together=True)
        return replace(done, rsn=self._train()[1]) if repair == "now" else done

    def _expire_staged(self) -> None:
        if self.home is not None:
            try:
                self.home.inbox.expire()
            except BaseException:
                self.held.reload()
                raise

    def _resolved(self, requests: Sequence[Request], lenient: bool) -> list[Selection]:
        """The samples that each request names; none for a request that only staged samples answer."""
        only_staged = [
            (
                request.everything
                and not self.ledger.names_like(request.user)
                and (lenient or self.journal.staged(request.user) > 0)
            )
            or (request.handles is not None and self._all_staged(request.user, request.handles))
            for request in requests
        ]
        learned = [request for request, staged in zip(requests, only_staged, strict=True) if not staged]
        selections = iter(resolve(self.ledger, learned))
        return [{} if staged else next(selections) for staged in only_staged]

    def _all_staged(self, user: str, handles: Sequence[str]) -> bool:
        """Whether the samples with these handles are all staged; RequestError for a handle that no sample has."""
        rest = set(handles) - self.journal.staged_handles(user)
        places = [(name, t) for name in self.ledger.names_like(user) for t in self.ledger.rounds_of(name)]
        held = rest and {handle for name, t in places for handle in self.ledger.handles_of(name, t)}
        if missing := sorted(rest - set(held)):
            raise RequestError(f"user {user!r} has no sample with the handle {missing[0]!r}")
        return not rest

    def samples_of(self, user: str, *, round: int | None = None) -> list[HeldSample]:  # noqa: A002
        """List the samples of a user, or of one of their rounds: round, handle, label and time of arrival.

        Staged samples come last and have no round. A device in memory raises InputError.
        """
        with self.lock:
            return self._home().samples_of(self.name_of(user), round)

    def match(self, user: str, x: ArrayLike, y: ArrayLike | None = None) -> Matched:
        """Find the samples of a user that equal these rows, in inputs and, if `y` is given, labels. Changes nothing."""
        with self.lock:
            return match(self, self.name_of(user), x, y)

    def name_of(self, user: str) -> str:
        """A user's name as the device stores it: in normal form, or as written if an older home holds that."""
        check_user(user)
        held = bool(self.ledger.rounds_of(user)) if self.home is None else self.home.holds_name(user)
        return user if held else normal_name(user)

    def _repair_or_default(self, repair: str | None) -> str:
        repair = repair or self._repair
        check_choice("repair", repair, REPAIRS)
        return repair

    def plan(self, *requests: Request | str) -> list[ShardPlan]:
        """Compute what serving these requests together would touch and cost. Changes nothing.

        Parameters
        ----------
        requests
            Requests, or names of users: a name means everything of that user.

        Raises
        ------
        RequestError
            If nothing is held of a user, or not all that was named.
        """
        with self.lock:
            named = [replace(request, user=self.name_of(request.user)) for request in requests_of(requests)]
            return self.engine.plan(merged(self._resolved(named, lenient=False)))

    # Training

    def repair(self, *, stop: Callable[[], bool] | None = None) -> int:
        """Train all shards that wait, each in one replay, and return how many samples were trained again.

        Shards wait after a forget with `repair="later"`, after a call that was interrupted, and for rounds that were
        recorded and not trained.

        Parameters
        ----------
        stop
            Called after each segment; if it returns True, the rest goes on waiting.
        """
        with self.lock:
            self._resume()
        return self._train(stop)[1]

    def waiting(self) -> list[int]:
        """The shards that wait for training: their head is not their newest segment, or they have none."""
        return self.held.waiting()

    def _train(
        self, stop: Callable[[], bool] | None = None, except_: Sequence[int] = (), *, once: bool = False
    ) -> tuple[list[SegmentKey], int]:
        return self.engine.train(self.watch, stop, except_, once=once)

    def verify(
        self,
        receipt: "int | str | Bundle | None" = None,
        *,
        processes: int = 1,
        progress: Progress | None = None,
        began: "Callable[[ProcessPoolExecutor], None] | None" = None,
    ) -> Verification:
        """Train again from the retained data alone, in fresh processes, and compare with the stored sub-models.

        Parameters
        ----------
        receipt
            The number of a receipt, its request's id, or a bundle from elsewhere: check its signature, its place in the
            log and its commitments, and replay the shards that it names. Without one, replay all shards.
        processes
            How many processes replay; 0 replays in this one.
        progress
            Called after each shard, with how many are done and how many there are.
        began
            Called with the pool of processes, for a caller that may have to end them.

        Returns
        -------
        Verification
            Which sub-models are identical, and what does not hold.

        Raises
        ------
        LogError
            If the receipt's signature or its proof does not hold, or there is no such receipt.
        ChangedError
            If something was forgotten or found damaged meanwhile.
        """
        if receipt is None:
            return verify(self, processes=processes, progress=progress, began=began)
        if self.home is None:
            raise InputError("receipts are for a device with a home: Cause('device/', …)")
        with self.lock:
            body = self.home.receipts.checked(receipt)
        touched = {shard["shard"] for shard in body["shards"]}
        verification = verify(self, shards=touched, processes=processes, progress=progress, began=began)
        with self.lock:
            wrong, superseded = self.home.receipts.held(body)
        return replace(verification, wrong=wrong, superseded=superseded)

    def chains(self, shards: Collection[int] | None = None) -> list[Chain]:
        """What a replay of each shard needs: retained samples, seeds, and the stored sub-models to compare with."""
        return self.engine.training.chains(self.learner, shards)

    # Aggregation

    def heads(self) -> dict[int, SubModel]:
        """The sub-models that vote, by shard."""
        return self.held.heads()

    @property
    def learner(self) -> Learner:
        """The learner that trains sub-models, with the pruning and precision of the system."""
        return self.engine.learner

    @property
    def lock(self) -> RLock:
        """The lock of ledger and memory: hold it to read them while other threads may change them."""
        return self.held.lock

    @property
    def journal(self) -> Journal:
        """The journal, which makes changes durable."""
        return self.held.journal

    @journal.setter
    def journal(self, journal: Journal) -> None:
        self.held.journal = journal

    @property
    def changes(self) -> int:
        """A counter that grows with each deletion and with each sub-model that is found damaged."""
        return self.held.changes

    def current(self, shard: int, since: int) -> bool:
        """Whether nothing of a shard was forgotten or found damaged since `changes` had this value."""
        return self.held.current(shard, since)

    def voters(self) -> list[Voter]:
        """The sub-models that vote now, each with its weight."""
        return ensemble.voters(self.held)

    def load(self, sub_model: SubModel) -> bytes | None:
        """The bytes of a stored sub-model; None if it was deleted meanwhile, or is damaged (it is dropped then)."""
        return ensemble.loaded(self.held, sub_model)

    def predict(self, x: Any) -> Labels:
        """Predict the label of each sample of `x` by a vote of the heads.

        Raises
        ------
        InputError
            If `x` does not have the shape that the learner needs.
        CauseError
            If no shard has a sub-model.
        """
        weights, probabilities = self.votes(x)
        return VOTES[self.system.vote](probabilities, weights)

    def votes(self, x: Any) -> tuple[NDArray[np.float64], NDArray[np.floating]]:
        """The weight of each head (the samples behind it), and its probabilities: voter × sample × class."""
        self.held.look()
        self.engine.training.prepare()
        return ensemble.votes(self.held, self.engine.training, self.learner, inputs_of(x))

    def status(self, model: "EnergyModel | None" = None) -> "Status":
        """The state of a device with a home: what serves, what waits, what repair will cost, what is due when.

        With an energy model (`cause calibrate --out`) the costs are in seconds and joules too. A device in memory
        raises InputError.
        """
        from cause.device.status import status

        self.held.look()
        return status(self, model)

    def close(self) -> None:
        """End the workers, close all files and release the home's lock."""
        try:
            self.engine.close()
        finally:
            self.journal.close()

    def __getstate__(self) -> dict[str, Any]:
        """The state of a device in memory, for copies that scikit-learn's tools make; homes are never stored so."""
        if self.home is not None:
            raise InputError("a device with a home is not copied: its folder is what lasts, so open that again")
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.engine.executor = Here()

    def __enter__(self) -> "Cause":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
