"""Replays that are asked for over HTTP: in fresh processes, one at a time, in the background."""

import queue
import threading
import time
from collections import OrderedDict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from secrets import token_hex

from cause.device.device import Cause
from cause.errors import CauseError
from cause.service.events import Events
from cause.service.redact import kind_of
from cause.service.responses import moment
from cause.service.schemas import Verification

KEPT = 200
WAITING = 20
TRIES = 3
"""What is forgotten while it is replayed begins again."""
CHANGED = "it could not be replayed: the device changed meanwhile"


@dataclass(frozen=True)
class _Job:
    id: str
    receipt: int | None


class Verifications:
    """Their states; those of long ago are forgotten, and they can be asked for again."""

    def __init__(self, device: Cause, events: Events, processes: int) -> None:
        self._device, self._events, self._processes = device, events, processes
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Verification] = OrderedDict()
        self._jobs: queue.Queue[_Job | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._pool: ProcessPoolExecutor | None = None  # of the one under way
        self._since, self._closed = 0, False  # the device's changes when it began

    def ask(self, receipt: int | None) -> Verification | None:
        """Begin one; None when too many wait."""
        with self._lock:
            for known in self._known.values():
                if known.state == "running" and known.receipt == receipt:
                    return known
            made = Verification(id=token_hex(16), receipt=receipt, state="running", started=moment(time.time()))
            try:
                self._jobs.put_nowait(_Job(made.id, receipt))
            except queue.Full:
                return None
            self._known[made.id] = made
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="verifications", daemon=True)
                self._thread.start()
        return made

    def get(self, id_: str) -> Verification | None:
        with self._lock:
            return self._known.get(id_)

    def forgotten(self) -> None:
        """What was forgotten may lie in the memory of processes that replay it: they end, and it begins again."""
        with self._lock:
            if self._pool is not None and (self._closed or self._device.changes != self._since):
                for process in list((self._pool._processes or {}).values()):
                    process.kill()

    def close(self) -> None:
        """What waits is not begun any more, and what is under way ends."""
        self._closed = True
        while True:
            try:
                self._jobs.get_nowait()
            except queue.Empty:
                break
        self._jobs.put(None)
        self.forgotten()
        if self._thread is not None:
            self._thread.join(10)

    def _began(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            self._pool = pool
        self.forgotten()  # it may have come before there was anything to end

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                begun = self._known.get(job.id)
            if begun is None:
                continue
            done = self._done(begun)
            with self._lock:
                self._known[job.id] = done
            self._events.tell("verification.finished", **done.model_dump())

    def _done(self, begun: Verification) -> Verification:
        told: dict[str, object] = {}
        for left in reversed(range(TRIES)):
            self._since = changes = self._device.changes
            try:
                found = self._device.verify(begun.receipt, processes=self._processes, began=self._began)
                told = {
                    "state": "holds" if found.holds else "mismatch",
                    "sub_models": found.sub_models,
                    "identical": len(found.identical),
                    "mismatched": len(found.mismatched) + len(found.wrong),
                    "unverifiable": len(found.unverifiable),
                    "superseded": len(found.superseded),
                }
            except CauseError as error:
                told = {"state": "failed", "detail": kind_of(error)}
            except Exception:  # samples and sub-models went while they were read
                told = {"state": "failed", "detail": CHANGED}
            finally:
                with self._lock:
                    self._pool = None
            if changes == self._device.changes or self._closed:
                break
            if not left:  # what it compared is not what is there
                told = {"state": "failed", "detail": CHANGED}
        return begun.model_copy(update={**told, "finished": moment(time.time())})
