"""The thread that closes rounds, trains and repairs on a schedule. The training itself runs in worker processes."""

import logging
import math
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

from cause.device.core import home_of
from cause.device.device import Arrived, Cause
from cause.device.schedule import due, margin_of, may_begin
from cause.device.status import waiting
from cause.device.store.queries import RoundRow
from cause.engine.presets import ADDITIVE
from cause.engine.progress import Step
from cause.errors import CauseError
from cause.service.events import Events
from cause.service.others_load import OthersLoad
from cause.service.redact import redacted_message, redacted_traceback
from cause.service.settings import ServeSettings

LOOK_S = 1.0
"""Seconds between two checks whether something is due."""
RETRY_S = 5.0
"""Seconds of pause after an error."""
LONGEST_RETRY_S = 600.0
"""The longest pause before a shard whose training fails is tried again."""
EXPIRE_S = 3600.0
"""Seconds between two expiries of old samples, also without uploads."""
QUIET_S, PATIENCE_S = 0.2, 3.0
"""Repairs start after so many seconds without an erasure, and after so many seconds at the latest."""
log = logging.getLogger("cause.serve")


@dataclass(frozen=True)
class TrainingProblem:
    """Why training fails."""

    kind: str
    """Without user ids."""
    text: str
    """May contain user ids: for operators only."""


@dataclass(frozen=True)
class Backlog:
    """Shards that wait for a training."""

    fresh: tuple[int, ...]
    """Shards with new samples only: always trained at once."""
    repair: tuple[int, ...]
    """Shards to train again after an erasure."""
    with_fresh: tuple[int, ...] = ()
    """Those of `repair` that have samples of a new round, too: one training does both."""

    def without(self, shards: Collection[int]) -> "Backlog":
        """Return the backlog without these shards."""
        return Backlog(
            *(
                tuple(shard for shard in waiting_shards if shard not in shards)
                for waiting_shards in (self.fresh, self.repair, self.with_fresh)
            )
        )


class Trainer:
    """Closes rounds on a schedule and keeps the shards up to date.

    Parameters
    ----------
    device
        The device; its `watch` is set to this trainer.
    events
        Where progress is published.
    settings
        When rounds are closed.
    repair
        When shards are repaired: now, idle, deadline or never.
    """

    def __init__(self, device: Cause, events: Events, settings: ServeSettings, repair: str) -> None:
        self.device, self._events, self._settings = device, events, settings
        self.repair = repair
        self.progress: Step | None = None
        """The progress of the training under way; None when there is none."""
        self.problem: TrainingProblem | None = None
        self.load = OthersLoad()
        """Tells whether other processes leave the machine idle."""
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._repair_requested = threading.Event()
        self._erased = threading.Event()
        self._closed_at = time.monotonic()
        self._closing = threading.Lock()
        self._last_round = device.ledger.round  # of those that were published
        self._expired_at = -math.inf
        self._failing: dict[
            int, tuple[int, float, float]
        ] = {}  # by shard: the device's changes, time of the retry, pause
        device.watch = self._watch
        self._thread = threading.Thread(target=self._run, name="trainer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def apply(self, settings: ServeSettings, repair: str) -> None:
        """Use another schedule from now on."""
        self._settings, self.repair = settings, repair
        self.wake()

    def wake(self, *, repair: bool = False) -> None:
        """Check now whether there is something to do; with `repair`, repair even if it is not due yet."""
        if repair:
            self._repair_requested.set()
        self._wake.set()

    def erased(self) -> None:
        """Note an erasure. The repair waits a short time for further ones, which are then repaired together."""
        self._erased.set()
        self._wake.set()

    def stop(self, grace_s: float) -> None:
        """Stop after the segment under way; cancel it if it takes longer than `grace_s`. The next start continues."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is None:
            return  # it was never started
        self._thread.join(grace_s)
        if self._thread.is_alive():
            self.device.cancel_training()
            self._thread.join(10)

    def close_round(self, call: str | None = None, *, empty: bool = False) -> Arrived:
        """Close a round of all staged samples, expire old ones, and let the round be trained.

        Parameters
        ----------
        call
            The id of the call, so that a repeated one closes no second round.
        empty
            Close a round even if nothing is staged.

        Returns
        -------
        What `Cause.close_round` returns; it also says what can fail.
        """
        with self._closing:
            arrived = self.device.close_round(call=call, expire=False, empty=empty)
            counts = {"samples": arrived.samples, "users": arrived.users, "active_shards": arrived.active_shards}
            self._last_round = max(self._last_round, arrived.round)
            self._events.publish("round.closed", round=arrived.round, **counts)
        self._after_round()
        return arrived

    def note_rounds(self) -> None:
        """Publish the rounds that uploads to an additive device have closed, and expire old samples.

        With other learners it does nothing: all their rounds are closed by `close_round`.
        """
        device = self.device
        if device.learner.law != ADDITIVE:
            return
        with self._closing:
            last = device.ledger.round
            if last == self._last_round:
                return
            rows = home_of(device).queries.rounds(self._last_round + 1, last)
            for number in range(self._last_round + 1, last + 1):
                row, shards = rows.get(number, RoundRow()), device.controller.at(number)
                self._events.publish(
                    "round.closed", round=number, samples=row.samples, users=row.users, active_shards=shards
                )
            self._last_round = last
        self._after_round()

    def _after_round(self) -> None:
        self._closed_at = time.monotonic()
        try:
            self.device.expire(repair="later")  # before any training uses samples that expire
        except Exception as error:  # the round stays closed
            self._failed(error, f"old samples could not be deleted: {redacted_message(error)}", "expiry")
            self._expired_at = -math.inf  # try again in the next turn
        self.wake()

    def backlog(self) -> Backlog:
        """Return the shards that wait for a training."""
        with self.device.lock:
            segments = waiting(self.device)
        shards = {waiting_.segment.shard for waiting_ in segments}
        again = {waiting_.segment.shard for waiting_ in segments if waiting_.again}
        fresh = {waiting_.segment.shard for waiting_ in segments if not waiting_.again}
        return Backlog(tuple(sorted(shards - again)), tuple(sorted(again)), tuple(sorted(again & fresh)))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._expire_if_due()
                self._close_if_due()
                self._wait_for_quiet()
                if not self._work():
                    self._wake.wait(LOOK_S)
                    self._wake.clear()
                if not self.device.failed_shards:
                    self.problem = None
            except CauseError as error:
                self._failed(error, str(error))
                self._stopping.wait(RETRY_S)
            except Exception as error:
                self._failed(error, f"{redacted_message(error)}: the log tells more")
                self._stopping.wait(RETRY_S)

    def _failed(self, error: Exception, text: str, what: str = "training") -> None:
        self.problem = TrainingProblem(redacted_message(error), text)
        log.error("%s failed: %s", what, redacted_message(error), extra={"detail": redacted_traceback(error)})

    def _expire_if_due(self) -> None:
        if time.monotonic() - self._expired_at >= EXPIRE_S:
            self.device.expire(repair="later")
            self._expired_at = time.monotonic()
            if doubt := home_of(self.device).time.doubt():
                log.warning("nothing expires", extra={"detail": doubt})

    def _close_if_due(self) -> None:
        home = home_of(self.device)
        with self.device.lock:
            staged = sum(upload.samples for upload in home.inbox.uploads())
        every, samples = self._settings.close_every_s, self._settings.close_samples
        late = every is not None and time.monotonic() - self._closed_at >= every
        if staged and (late or (samples is not None and staged >= samples)):
            self.close_round()

    def _work(self) -> bool:
        """Train what may be trained now; return whether there was anything."""
        resting = self._resting()
        backlog = self.backlog().without(resting)
        repairing = self._to_repair(backlog)
        if not backlog.fresh and not repairing:
            self._repair_requested.clear()
            self._finish_requests()
            return False
        what, shards = ("repair" if repairing else "round"), sorted({*backlog.fresh, *repairing})
        self._events.publish("training.started", what=what, shards=shards)
        trained = rsn = 0
        try:
            left_out = [*resting, *(shard for shard in backlog.repair if shard not in repairing)]
            trained, rsn = self.device.catch_up(stop=self._stopping.is_set, except_=left_out)
        finally:
            self._rest()
            self.progress = None
            self._events.publish(
                "training.finished", what=what, trained=trained, rsn=rsn, waiting=self.device.waiting()
            )
        return True

    def _resting(self) -> set[int]:
        """Return the shards whose training failed recently and that did not change since: others come first."""
        if self._repair_requested.is_set():
            return set()
        now, current = time.monotonic(), self.device.current
        return {shard for shard, (since, until, _) in self._failing.items() if now < until and current(shard, since)}

    def _rest(self) -> None:
        """After a training: double the pause of shards that failed again."""
        now, changes = time.monotonic(), self.device.changes
        failing = {}
        for shard in self.device.failed_shards:
            since, until, pause = self._failing.get(shard, (changes, 0.0, RETRY_S / 2))
            again = until <= now or not self.device.current(shard, since)
            pause = min(pause * 2, LONGEST_RETRY_S) if again else pause
            failing[shard] = (changes, now + pause, pause) if again else (since, until, pause)
        self._failing = failing

    def _wait_for_quiet(self) -> None:
        """Wait until erasures pause, but not for long: each restart of a worker takes seconds."""
        end = time.monotonic() + PATIENCE_S
        while self._erased.is_set() and time.monotonic() < end and not self._stopping.is_set():
            self._erased.clear()
            self._erased.wait(QUIET_S)
        self._erased.clear()

    def _finish_requests(self) -> None:
        """Serve requests that an error kept from taking effect; mark those as repaired that left nothing to train."""
        home = home_of(self.device)
        if home.queries.has_unserved():
            with self.device.lock:
                all_shards = self.device.ledger.shards()
            self.device.catch_up(except_=all_shards)
        with self.device.lock:
            waiting_shards = set(self.device.waiting())
            if any(not waiting_shards & shards for shards in home.queries.shards_of_unrepaired()):
                self.device.journal.caught_up(sorted(waiting_shards))

    def _to_repair(self, backlog: Backlog) -> tuple[int, ...]:
        """Return the shards to train again now."""
        if not backlog.repair or self._repair_requested.is_set():
            return backlog.repair
        if may_begin(self.repair, is_idle=self.load.idle, is_due=self._due):
            return backlog.repair
        return backlog.with_fresh if self.repair == "idle" else ()

    def _due(self) -> bool:
        home = home_of(self.device)
        return due(home.queries.open_deadlines(), home.clock(), margin_of(home.deadline_s))

    def _watch(self, step: Step) -> None:
        if self.device.learner.law == ADDITIVE:
            return  # nothing is trained: an upload is added, an erasure subtracted, before they are answered
        self.progress = step
        counts = {"epoch": step.epoch, "epochs": step.epochs, "done": step.done, "total": step.total}
        self._events.publish("segment.epoch", segment=list(step.segment), **counts)
