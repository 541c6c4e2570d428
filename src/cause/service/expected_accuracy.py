"""The accuracy that an additive device can expect, estimated when the status is requested."""

import logging
import threading
import time
from collections.abc import Callable

from cause.device.device import Cause
from cause.device.expected_accuracy import Estimate, quick_estimate
from cause.engine.presets import ADDITIVE
from cause.service.redact import redacted_message

log = logging.getLogger("cause.service")
LEAST_S = 2.0
"""Between two estimates, which also take at most a tenth of the time."""


class ExpectedAccuracy:
    """Keeps the estimate of the present state, in memory alone, and makes a new one in a thread.

    An estimate has seen every sample of its state. Once the state has changed it is dropped, whether samples were added
    or forgotten, and an estimate of a state that changed meanwhile is never kept.

    Parameters
    ----------
    device
        The device.
    on_estimate
        Called when there is a new one.
    """

    def __init__(self, device: Cause, on_estimate: Callable[[], None]) -> None:
        self._device, self._on_estimate = device, on_estimate
        self._lock = threading.Lock()
        self._estimate: Estimate | None = None
        self._thread: threading.Thread | None = None
        self._next = 0.0

    def get(self) -> Estimate | None:
        """Return the estimate of the present state. If there is none, one is begun, and None is returned."""
        if self._device.learner.law != ADDITIVE:
            return None
        identity = self._identity()
        with self._lock:
            if self._estimate is not None and self._estimate.identity != identity:
                self._estimate = None
            if self._estimate is None and identity is not None and self._may_begin():
                self._thread = threading.Thread(target=self._run, name="expected accuracy", daemon=True)
                self._thread.start()
            return self._estimate

    def drop(self) -> None:
        """Drop the estimate: samples behind it were forgotten."""
        with self._lock:
            self._estimate = None

    def close(self) -> None:
        """Wait for an estimate that is being made."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join()

    def _may_begin(self) -> bool:
        return (self._thread is None or not self._thread.is_alive()) and time.monotonic() >= self._next

    def _identity(self) -> bytes | None:
        with self._device.lock:
            head = self._device.memory.head(0)
            return None if head is None else head.identity

    def _run(self) -> None:
        started = time.monotonic()
        try:
            estimate = quick_estimate(self._device)
            with self._device.lock:  # nothing is forgotten between the comparison and the assignment
                current = estimate is not None and estimate.identity == self._identity()
                if current:
                    with self._lock:
                        self._estimate = estimate
        except Exception as error:  # the status goes without it
            log.warning("the accuracy is not estimated: %s", redacted_message(error))
            current = False
        took = time.monotonic() - started
        self._next = time.monotonic() + max(LEAST_S, 10 * took)
        if current:
            self._on_estimate()
