"""Server-sent events: numbered, with the last ones kept for listeners that reconnect."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

KEPT = 1_000
BEHIND = 1_000
"""A listener that is so many events behind is disconnected; it can reconnect with the last id it saw."""
BEAT_S = 15.0


@dataclass(frozen=True)
class Event:
    """One event: a number, what happened, and its data."""

    id: int
    kind: str
    data: dict[str, Any]

    def text(self) -> str:
        """Return the event in the text format of server-sent events."""
        return f"id: {self.id}\nevent: {self.kind}\ndata: {json.dumps(self.data)}\n\n"


class Listener:
    """One open stream: a queue of events on the event loop of the stream. None in the queue ends the stream."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue()


class Events:
    """Passes events on to all listeners. Events may be published from any thread.

    Parameters
    ----------
    first
        The id of the first event: above all ids of the service's earlier runs, so that a client that comes back with
        the last id that it saw gets everything that happened since the restart.
    """

    def __init__(self, first: int = 1) -> None:
        self._lock = threading.RLock()  # a signal handler may call `close` while its thread holds the lock
        self._next, self._closed = first, False
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._listeners: set[Listener] = set()
        self.on_publish: Callable[[str], None] = lambda kind: None
        """Called with the kind of each event; it must return at once."""

    def publish(self, kind: str, **data: Any) -> None:
        """Send an event to all listeners and keep it for those that reconnect."""
        with self._lock:
            event = Event(self._next, kind, data)
            self._next += 1
            self._kept.append(event)
            for listener in list(self._listeners):
                self._send(listener, event)
        self.on_publish(kind)

    def _send(self, listener: Listener, event: Event | None) -> None:
        if listener.queue.qsize() > BEHIND:
            self._listeners.discard(listener)
            event = None
        try:
            listener.loop.call_soon_threadsafe(listener.queue.put_nowait, event)
        except RuntimeError:  # its loop is closed
            self._listeners.discard(listener)

    def close(self) -> None:
        """End all streams, and all that are opened later."""
        with self._lock:
            self._closed = True
            for listener in list(self._listeners):
                self._send(listener, None)
            self._listeners.clear()

    async def stream(
        self, after: int | None, hello: dict[str, Any], allowed: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[str]:
        """Yield events as text, and a comment every `BEAT_S` seconds without one.

        Parameters
        ----------
        after
            The id of the last event that the client saw: kept events after it come first. None: new events only.
        hello
            The data of the first event.
        allowed
            Asked before each event; the stream ends when it returns False.
        """
        listener = Listener()
        with self._lock:
            missed = [] if after is None else [event for event in self._kept if event.id > after]
            if not self._closed:
                self._listeners.add(listener)
        try:
            yield f"event: hello\ndata: {json.dumps(hello)}\n\n"
            for event in missed:
                yield event.text()
            while not self._closed:
                try:
                    received = await asyncio.wait_for(listener.queue.get(), BEAT_S)
                    text = None if received is None else received.text()
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None or not allowed():
                    return
                yield text
        finally:
            with self._lock:
                self._listeners.discard(listener)
