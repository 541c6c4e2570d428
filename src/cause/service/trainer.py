"""The thread that lets rounds be closed, trained and repaired, when it is time to. Training itself is in workers."""

import logging
import math
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

from cause.device.device import Arrived, Cause
from cause.device.schedule import due, margin_of, may_begin
from cause.device.status import home_of, waiting
from cause.engine.progress import Step
from cause.errors import CauseError
from cause.service.events import Events
from cause.service.others_load import OthersLoad
from cause.service.redact import kind_of, where
from cause.service.settings import ServeSettings

LOOK_S = 1.0
"""How often it looks whether it is time."""
AGAIN_S = 5.0
"""How long it waits after an error."""
LONGEST_S = 600.0
"""The longest time after which a shard whose training fails is tried again."""
TIDY_S = 3600.0
"""How often what is too old goes, also where nobody uploads anything."""
QUIET_S, PATIENCE_S = 0.2, 3.0
log = logging.getLogger("cause.serve")


@dataclass(frozen=True)
class Problem:
    """Why training fails."""

    kind: str
    """Names nobody."""
    text: str
    """May name a user: for who may know them all."""


@dataclass(frozen=True)
class Behind:
    """Shards that wait."""

    fresh: tuple[int, ...]
    """For their first training: always trained at once."""
    repair: tuple[int, ...]
    """To be trained again."""
    with_fresh: tuple[int, ...] = ()
    """Those to be trained again for which samples of a new round wait, too: one training does both."""

    def without(self, shards: Collection[int]) -> "Behind":
        """The others."""
        return Behind(
            *(
                tuple(shard for shard in each if shard not in shards)
                for each in (self.fresh, self.repair, self.with_fresh)
            )
        )


class Trainer:
    """Closes rounds on a schedule and keeps the shards up to date."""

    def __init__(self, device: Cause, events: Events, settings: ServeSettings, repair: str) -> None:
        self.device, self._events, self._settings = device, events, settings
        self.repair = repair
        self.now: Step | None = None
        """How far the training under way is."""
        self.problem: Problem | None = None
        self.load = OthersLoad()
        """How busy the machine is with the work of others."""
        self._wake, self._stopping, self._asked = threading.Event(), threading.Event(), threading.Event()
        self._erased = threading.Event()
        self._closed_at = time.monotonic()
        self._tidied_at = -math.inf
        self._failing: dict[int, tuple[int, float, float]] = {}  # by shard: changes, when it is tried again, the pause
        device.watch = self._watch
        self._thread = threading.Thread(target=self._run, name="trainer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self, *, repair: bool = False) -> None:
        """There may be something to do; also a repair for which it is not time yet."""
        if repair:
            self._asked.set()
        self._wake.set()

    def erased(self) -> None:
        """Something was forgotten, and what trained on it stopped. Others may follow: they are repaired together."""
        self._erased.set()
        self._wake.set()

    def stop(self, grace_s: float) -> None:
        """Let the segment under way come to its end; if that takes too long, the next start trains it."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is None:
            return  # it was never started
        self._thread.join(grace_s)
        if self._thread.is_alive():
            self.device.engine.executor.cancel()
            self._thread.join(10)

    def close_round(self, call: str | None = None, *, empty: bool = False) -> Arrived:
        """Make a round of what is staged, and let it be trained; see `Cause.close_round`."""
        arrived = self.device.close_round(call=call, expire=False, empty=empty)
        self._closed_at = time.monotonic()
        told = {"samples": arrived.samples, "users": arrived.users, "active_shards": arrived.active_shards}
        self._events.tell("round.closed", round=arrived.round, **told)
        try:
            self.device.expire(repair="later")  # before anything is trained on what goes
        except Exception as error:  # the round is closed all the same
            self._failed(error, f"what is too old could not be let go: {kind_of(error)}", "expiry")
            self._tidied_at = -math.inf  # the next turn begins with it
        self.wake()
        return arrived

    def behind(self) -> Behind:
        """Which shards wait, and for what."""
        with self.device.lock:
            segments = waiting(self.device)
        shards = {each.segment.shard for each in segments}
        again = {each.segment.shard for each in segments if each.again}
        fresh = {each.segment.shard for each in segments if not each.again}
        return Behind(tuple(sorted(shards - again)), tuple(sorted(again)), tuple(sorted(again & fresh)))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._tidy_if_due()
                self._close_if_due()
                self._let_come()
                if not self._work():
                    self._wake.wait(LOOK_S)
                    self._wake.clear()
                if not self.device.engine.training.failed:
                    self.problem = None
            except CauseError as error:
                self._failed(error, str(error))
                self._stopping.wait(AGAIN_S)
            except Exception as error:
                self._failed(error, "an unexpected error: the log tells more")
                self._stopping.wait(AGAIN_S)

    def _failed(self, error: Exception, text: str, what: str = "training") -> None:
        self.problem = Problem(kind_of(error), text)
        log.error("%s failed: %s", what, kind_of(error), extra={"detail": where(error)})

    def _tidy_if_due(self) -> None:
        if time.monotonic() - self._tidied_at >= TIDY_S:
            self.device.expire(repair="later")
            self._tidied_at = time.monotonic()
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
        """Train what may be trained now; whether there was anything."""
        behind, resting = self.behind(), self._resting()
        behind = behind.without(resting)
        repairing = self._to_repair(behind)
        if not behind.fresh and not repairing:
            self._asked.clear()
            self._settle()
            return False
        what, shards = ("repair" if repairing else "round"), sorted({*behind.fresh, *repairing})
        self._events.tell("training.started", what=what, shards=shards)
        trained = rsn = 0
        try:
            left_out = [*resting, *(shard for shard in behind.repair if shard not in repairing)]
            trained, rsn = self.device.catch_up(stop=self._stopping.is_set, except_=left_out)
        finally:
            self._rest()
            self.now = None
            self._events.tell("training.finished", what=what, trained=trained, rsn=rsn, waiting=self.device.waiting())
        return True

    def _resting(self) -> set[int]:
        """Shards whose training failed a short time ago, and nothing of them was forgotten since: others come first."""
        if self._asked.is_set():
            return set()
        now, current = time.monotonic(), self.device.current
        return {shard for shard, (since, until, _) in self._failing.items() if now < until and current(shard, since)}

    def _rest(self) -> None:
        """After a training: shards that failed again are tried after twice the time of before."""
        now, changes = time.monotonic(), self.device.changes
        failing = {}
        for shard in self.device.engine.training.failed:
            since, until, pause = self._failing.get(shard, (changes, 0.0, AGAIN_S / 2))
            again = until <= now or not self.device.current(shard, since)
            pause = min(pause * 2, LONGEST_S) if again else pause
            failing[shard] = (changes, now + pause, pause) if again else (since, until, pause)
        self._failing = failing

    def _let_come(self) -> None:
        """Wait for a moment in which nothing is forgotten, but not for long: a worker takes seconds to start."""
        end = time.monotonic() + PATIENCE_S
        while self._erased.is_set() and time.monotonic() < end and not self._stopping.is_set():
            self._erased.clear()
            self._erased.wait(QUIET_S)
        self._erased.clear()

    def _settle(self) -> None:
        """Serve what an error kept from taking effect; requests that left nothing to train again are done with."""
        home = home_of(self.device)
        if home.queries.has_unserved():
            with self.device.lock:
                everything = self.device.ledger.shards()
            self.device.catch_up(except_=everything)
        with self.device.lock:
            behind = set(self.device.waiting())
            if any(not behind & shards for shards in home.queries.shards_of_unrepaired()):
                self.device.journal.caught_up(sorted(behind))

    def _to_repair(self, behind: Behind) -> tuple[int, ...]:
        """The shards that are trained again now."""
        if not behind.repair or self._asked.is_set():
            return behind.repair
        if may_begin(self.repair, is_idle=self.load.idle, is_due=self._due):
            return behind.repair
        return behind.with_fresh if self.repair == "idle" else ()

    def _due(self) -> bool:
        home = home_of(self.device)
        return due(home.queries.open_deadlines(), home.clock(), margin_of(home.deadline_s))

    def _watch(self, step: Step) -> None:
        self.now = step
        told = {"epoch": step.epoch, "epochs": step.epochs, "done": step.done, "total": step.total}
        self._events.tell("segment.epoch", segment=list(step.segment), **told)
