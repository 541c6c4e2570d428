"""Verifications by replay that clients start over HTTP: in new processes, one at a time, in the background."""

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex

from cause.device.device import Cause
from cause.errors import CauseError
from cause.executors.pool import WorkerPool
from cause.service.events import Events
from cause.service.redact import redacted_message
from cause.service.responses import timestamp
from cause.service.schemas import Verification

KEPT = 200
WAITING = 20
TRIES = 3
"""How often a verification is tried when erasures change the device while it replays."""
CHANGED = "it could not be replayed: the device changed meanwhile"


@dataclass(frozen=True)
class _Job:
    id: str
    receipt: int | None


class Verifications:
    """Starts verifications and keeps the results of the last ones; older ones can be started again.

    Parameters
    ----------
    device
        The device to verify.
    events
        Where the end of a verification is published.
    processes
        How many processes replay.
    executor
        Makes the executor of a verification; None replays in processes of this machine.
    """

    def __init__(
        self,
        device: Cause,
        events: Events,
        processes: int,
        executor: Callable[[], WorkerPool | None] = lambda: None,
    ) -> None:
        self._device, self._events, self._processes, self._new_executor = device, events, processes, executor
        self._executor: WorkerPool | None = None  # of the verification under way
        self._lock = threading.Lock()
        self._verifications: OrderedDict[str, Verification] = OrderedDict()
        self._jobs: queue.Queue[_Job | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._pool: ProcessPoolExecutor | None = None  # of the verification under way
        self._changes, self._closed = 0, False  # the device's changes when it started

    def start(self, receipt: int | None) -> Verification | None:
        """Start a verification in the background.

        Parameters
        ----------
        receipt
            The number of the receipt to verify; None verifies all stored sub-models.

        Returns
        -------
        The verification, or the one that already runs for this receipt; None if too many wait.
        """
        with self._lock:
            for verification in self._verifications.values():
                if verification.state == "running" and verification.receipt == receipt:
                    return verification
            verification = Verification(
                id=token_hex(16), receipt=receipt, state="running", started=timestamp(time.time())
            )
            try:
                self._jobs.put_nowait(_Job(verification.id, receipt))
            except queue.Full:
                return None
            self._verifications[verification.id] = verification
            while len(self._verifications) > KEPT:
                self._verifications.popitem(last=False)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="verifications", daemon=True)
                self._thread.start()
        return verification

    def get(self, id_: str) -> Verification | None:
        """Return a verification; None if there is none with this id, or no longer."""
        with self._lock:
            return self._verifications.get(id_)

    def restart(self) -> None:
        """After an erasure: kill the processes that replay, which may hold erased samples, and replay again."""
        with self._lock:
            if self._pool is not None and (self._closed or self._device.changes != self._changes):
                for process in list((self._pool._processes or {}).values()):
                    process.kill()
        if self._closed and (executor := self._executor) is not None:
            executor.cancel()  # an erasure ends its workers by itself

    def close(self) -> None:
        """Kill the verification under way and start none of those that wait."""
        self._closed = True
        while True:
            try:
                self._jobs.get_nowait()
            except queue.Empty:
                break
        self._jobs.put(None)
        self.restart()
        if self._thread is not None:
            self._thread.join(10)

    def _on_pool(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            self._pool = pool
        self.restart()  # an erasure may have come before the processes were known

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                verification = self._verifications.get(job.id)
            if verification is None:
                continue
            finished = self._verify(verification)
            with self._lock:
                self._verifications[job.id] = finished
            self._events.publish("verification.finished", **finished.model_dump())

    @contextmanager
    def _executor_of_one(self) -> Iterator[WorkerPool | None]:
        """Yield the executor of one verification, and end its workers."""
        self._executor = executor = self._new_executor()
        try:
            yield executor
        finally:
            self._executor = None
            if executor is not None:
                executor.close()

    def _verify(self, verification: Verification) -> Verification:
        fields: dict[str, object] = {}
        for left in reversed(range(TRIES)):
            self._changes = changes = self._device.changes
            try:
                with self._executor_of_one() as executor:
                    report = self._device.verify(
                        verification.receipt, processes=self._processes, began=self._on_pool, executor=executor
                    )
                fields = {
                    "state": "mismatch" if not report.holds else "holds" if report.sub_models else "nothing",
                    "sub_models": report.sub_models,
                    "identical": len(report.identical),
                    "mismatched": len(report.mismatched) + len(report.wrong),
                    "unverifiable": len(report.unverifiable),
                    "superseded": len(report.superseded),
                }
            except CauseError as error:
                fields = {"state": "failed", "detail": redacted_message(error)}
            except Exception:  # samples and sub-models were deleted while they were read
                fields = {"state": "failed", "detail": CHANGED}
            finally:
                with self._lock:
                    self._pool = None
            if changes == self._device.changes or self._closed:
                break
            if not left:  # it compared sub-models that are no longer there
                fields = {"state": "failed", "detail": CHANGED}
        return verification.model_copy(update={**fields, "finished": timestamp(time.time())})
