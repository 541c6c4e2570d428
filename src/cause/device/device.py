"""CAUSE: learn and forget, exactly, in a bounded memory (the paper's Algorithm 3)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from cause.common.names import normal_name
from cause.common.registry import check_choice
from cause.device.assembly import assemble
from cause.device.calls import device_call
from cause.device.core import home_of
from cause.device.erasures import Erasures
from cause.device.error_notes import add_to_errors, round_recorded, uploads_staged
from cause.device.matching import Rows, inputs_and_labels
from cause.device.rounds import Rounds
from cause.device.view import DeviceView
from cause.engine.adapted_learner import as_learner
from cause.engine.arguments import REPAIRS, check_device, check_whole, request_of, requests_of, uploads_of
from cause.engine.arrivals import InputSpec
from cause.engine.executor import Executor
from cause.engine.journal import Journal
from cause.engine.learner import LearnerLike, warn_of_notes
from cause.engine.ledger import Ledger
from cause.engine.memory import Shelf
from cause.engine.memory.sizing import ENDLESS
from cause.engine.presets import ADDITIVE, System
from cause.engine.progress import Watch
from cause.engine.quarantine import dropping
from cause.engine.requests import Request
from cause.engine.results import Arrived, Forgotten, Learned, Voter
from cause.engine.samples import SegmentKey, Upload
from cause.errors import CauseError, RequestError
from cause.executors.spawning import refuse_rerun

if TYPE_CHECKING:
    from os import PathLike

    from cause.device.store.inbox import CallResult

__all__ = ["ENDLESS", "Arrived", "Cause", "Forgotten", "Learned", "Voter"]


class Cause(DeviceView):
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
    storage
        The most room that the samples of a home may take, as `"2GB"`; without limit unless it is given.
    retain
        How long a home keeps samples, as `"30 rounds"` or `"90 days"`; for ever unless it is given.
    repair
        Whether a forget in a home retrains before it returns, "now" (the default) or "later", unless the call says.
    deadline_days
        Within how many days a home must have repaired after a request; 30 unless it is given.
    **unknown
        Refused; the error names the nearest argument.

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
    >>> device.learn([TraceUpload("alice", 2, (Part(10),))]).round
    2
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
        storage: str | None = None,
        retain: str | None = None,
        repair: str | None = None,
        deadline_days: float | None = None,
        **unknown: Any,
    ) -> None:
        refuse_rerun()
        check_device(home, learner, system)
        check_whole(shards=shards, slots=slots, classes=classes, seed=seed, workers=workers)
        arguments: dict[str, Any] = {"system": system, "shards": shards, "memory": memory, "slots": slots}
        arguments |= {"classes": classes, "seed": seed, "workers": workers, "input_dtype": input_dtype}
        arguments["input_shape"] = None if input_shape is None else tuple(input_shape)
        trainer = None if learner is None else as_learner(learner)
        bounds: dict[str, Any] = {"storage": storage, "retain": retain, "repair": repair}
        bounds["deadline_days"] = deadline_days
        bounds = {name: value for name, value in bounds.items() if value is not None} | unknown
        parts = assemble(home, trainer, arguments, bounds, key, read_only=read_only)
        try:
            engine = parts.engine(executor, ledger, shelf, journal)
            super().__init__(engine, parts.home)
            self.watch, self._repair = watch, parts.repair
            self._erasures = Erasures(engine, self.home, self._lookup)
            self._rounds = Rounds(engine, self.home, self._erasures, parts.inputs)
            if self.home is not None:
                self._erasures.load_home(self.home)
                if not read_only:
                    with suppress(CauseError, OSError):  # what a call stored that was killed; the next one tries again
                        self._learn_staged(expire=False)
            else:
                warn_of_notes(self.learner, stacklevel=3)
        except BaseException:
            if parts.home is not None:
                parts.home.close()
            raise

    # Algorithm 3, lines 2 to 5: a round of learning

    @device_call
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
            A device with a home refuses an empty round unless this is set: each one makes all samples a round
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
            learned, waiting = self._rounds.begin(self._rounds.checked(uploads), idempotency_key, empty=empty)
        with add_to_errors(round_recorded(learned.round, learned.samples)):
            expired = self.expire(repair="later")  # first: nothing is trained on samples that are about to be deleted
            trained, _ = self._train(except_=waiting if repair == "later" else ())
        return replace(learned, trained=tuple(trained), expired=0 if expired is None else expired.samples)

    # Staging: uploads that come one by one wait, sealed and durable, until a round takes all of them in. Under the
    # additive law nothing waits: each call of `stage` is a round, and in effect when it returns

    @device_call
    def stage(self, user: str, x: ArrayLike, y: ArrayLike, *, call: str | None = None) -> "CallResult":
        """Keep an upload for the next round that `close_round` makes.

        With an additive learner the upload is a round of its own, and learned when this returns.

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
        CallResult
            The id, how many samples arrived, a handle for each row, and the round (None as long as they are staged).

        Raises
        ------
        InputError
            If the device has no home, or cannot take the upload. Nothing was changed then.
        BudgetError
            If the samples need more room than the home has. Nothing was changed then.
        """
        (called,) = self.stage_all({user: (x, y)}, calls={} if call is None else {normal_name(user): call}).values()
        return called

    @device_call
    def stage_all(
        self,
        uploads: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        calls: Mapping[str, str] | None = None,
        expire: bool = True,
    ) -> "dict[str, CallResult]":
        """Stage the uploads of several users, all of them or none; see `stage`.

        Parameters
        ----------
        uploads
            Inputs and labels by user.
        calls
            The ids of the calls of some of the users.
        expire
            With an additive learner, delete what is too old once the round is recorded; without it, call `expire`.

        Returns
        -------
        dict of CallResult
            What became of each upload, by user.
        """
        home = home_of(self, "stage")
        called = self._rounds.stage(home, uploads, calls or {})
        if self.learner.law != ADDITIVE:
            return called
        with add_to_errors(uploads_staged([result.id for result in called.values()])):
            self._learn_staged(expire=expire)
            self._retrain()
            return {user: home.inbox.in_its_round(result) for user, result in called.items()}

    def _learn_staged(self, *, expire: bool) -> None:
        """Make a round of what is staged, if the law is additive: under that nothing waits."""
        home = self.home
        if home is None or self.learner.law != ADDITIVE:
            return
        with self.lock:
            if home.inbox.uploads():
                self.close_round(expire=expire)

    @device_call
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
        arrived, repeated = self._rounds.close(home_of(self, "close_round"), call, empty=empty)
        if expire and not repeated:
            with add_to_errors(round_recorded(arrived.round, arrived.samples)):
                self.expire(repair="later")  # first: nothing is trained on samples that are about to be deleted
        return arrived

    @device_call
    def inputs(self) -> InputSpec:
        """Return shape and type of the inputs that the device takes: as set, by the learner, or of held samples."""
        return self._rounds.inputs()

    @device_call
    def catch_up(self, *, stop: Callable[[], bool] | None = None, except_: Sequence[int] = ()) -> tuple[int, int]:
        """Train the shards that wait, once each.

        A shard of which something is forgotten meanwhile is left for the next call; the others are trained.

        Parameters
        ----------
        stop
            Called after each segment; if it returns True, the rest is left for the next call.
        except_
            Shards that are not trained.

        Returns
        -------
        tuple of (int, int)
            How many segments were trained, and how many samples were trained again.
        """
        self.resume()
        trained, rsn = self._train(stop, except_, once=True)
        return len(trained), rsn

    @device_call
    def resume(self) -> None:
        """Serve the requests that were accepted and that an error kept from taking effect; raise the first error."""
        with self.lock:
            self._erasures.resume()

    # Algorithm 3, lines 6 to 12: requests

    @device_call
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
        """Forget everything of a user, some rounds, a part of a round, or single samples.

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
            x, y = inputs_and_labels(matching, (rounds, count, samples, handles))
            matched = self.match(user, x, y)
            (done,) = self.serve([matched.request(nonce)], repair=repair)
            return [replace(done, unmatched=len(matched.unmatched))]
        return self.serve([request_of(user, rounds, count, samples, handles, nonce)], repair=repair)

    @device_call
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

        The requests are recorded durably; then samples and tainted sub-models are deleted; then shards are retrained.

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
            Serve a request for everything of an unknown user as any other: the answer then reveals no user.

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
        train = self._retrain if repair == "now" else None
        return self._erasures.serve(requests, together=together, ids=ids, lenient=lenient, train=train)

    @device_call
    def reset_policy(self) -> bool:
        """Discard what the replacement policy has learned from requests: how many named data of each age.

        Which sub-models are stored does not change; later evictions start from the policy's prior again.

        Returns
        -------
        bool
            Whether there was anything to discard.
        """
        with self.lock:
            policy = self.memory.policy
            state = policy.state()
            left = policy.without_requests(state)
            if self.home is not None:
                self.home.reset_policy(type(policy))
            policy.restore(left, self.memory)
        return left != state

    @device_call
    def drop(self, upload: int, *, repair: str | None = None) -> Forgotten:
        """Forget the quarantined samples of an upload, by its number in `status().quarantined`.

        Raises
        ------
        RequestError
            If nothing of this upload is in quarantine. Nothing was changed then.
        """
        return self.serve([dropping(self.ledger, upload)], repair=repair)[0]

    @device_call
    def expire(self, *, repair: str = "now", trust_clock: bool = False) -> Forgotten | None:
        """Forget all samples that are older than the home keeps them (`retain`). `learn` does so in each round.

        Staged samples that are too old are deleted too. No sub-model has seen them, so no request records that.

        Parameters
        ----------
        repair
            "now" retrains what is left at once; "later" leaves that to `repair`.
        trust_clock
            Accept the wall clock after it jumped (`status().clock` says so); until then nothing is deleted by its age.

        Returns
        -------
        Forgotten or None
            What was forgotten; None if nothing was old enough.
        """
        check_choice("repair", repair, REPAIRS)
        with self.lock:  # no other request may come between the choice of the samples and their deletion
            self._erasures.resume()
            if trust_clock:
                home_of(self, "expire(trust_clock=True)").trust_clock()
            done = self._erasures.expire()
        return replace(done, rsn=self._retrain()) if done is not None and repair == "now" else done

    def _repair_or_default(self, repair: str | None) -> str:
        repair = repair or self._repair
        check_choice("repair", repair, REPAIRS)
        return repair

    # Training

    @device_call
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
            self._erasures.resume()
        self._learn_staged(expire=True)
        return self._train(stop)[1]

    @device_call
    def cancel_training(self) -> None:
        """Stop the training under way, if there is one; the shards go on waiting. Any thread may call this."""
        self.engine.executor.cancel()

    @property
    def failed_shards(self) -> dict[int, Exception]:
        """The waiting shards whose last training failed, each with its error."""
        return dict(self.engine.training.failed)

    def _retrain(self) -> int:
        return self._train()[1]

    def _train(
        self, stop: Callable[[], bool] | None = None, except_: Sequence[int] = (), *, once: bool = False
    ) -> tuple[list[SegmentKey], int]:
        return self.engine.train(self.watch, stop, except_, once=once)
