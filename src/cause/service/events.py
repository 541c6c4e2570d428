"""What happens, told to whoever listens: numbered, the last of them kept for those who come back."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

KEPT = 1_000
BEHIND = 1_000
"""A listener that is so many events behind is let go; it can come back with the last id it saw."""
BEAT_S = 15.0


@dataclass(frozen=True)
class Event:
    """One of them."""

    id: int
    kind: str
    data: dict[str, Any]

    def text(self) -> str:
        """As server-sent events are written."""
        return f"id: {self.id}\nevent: {self.kind}\ndata: {json.dumps(self.data)}\n\n"


class Listener:
    """One who listens, on an event loop of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue()


class Events:
    """Told from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal may come, and `close`, while its thread is in here
        self._next, self._closed = 1, False
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._listeners: set[Listener] = set()

    def tell(self, kind: str, **data: Any) -> None:
        """Something happened."""
        with self._lock:
            event = Event(self._next, kind, data)
            self._next += 1
            self._kept.append(event)
            for listener in list(self._listeners):
                self._send(listener, event)

    def _send(self, listener: Listener, event: Event | None) -> None:
        if listener.queue.qsize() > BEHIND:
            self._listeners.discard(listener)
            event = None
        try:
            listener.loop.call_soon_threadsafe(listener.queue.put_nowait, event)
        except RuntimeError:  # its loop is gone
            self._listeners.discard(listener)

    def close(self) -> None:
        """The service stops: streams end."""
        with self._lock:
            self._closed = True
            for listener in list(self._listeners):
                self._send(listener, None)
            self._listeners.clear()

    async def stream(
        self, after: int | None, hello: dict[str, Any], allowed: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[str]:
        """The events after one that was seen, or from now on, as long as that is allowed."""
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
                    told = await asyncio.wait_for(listener.queue.get(), BEAT_S)
                    text = None if told is None else told.text()
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None or not allowed():
                    return
                yield text
        finally:
            with self._lock:
                self._listeners.discard(listener)
