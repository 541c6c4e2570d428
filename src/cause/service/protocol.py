"""HTTP as uvicorn speaks it, with bounds: connections, the size of a head, and how long a client may take."""

import asyncio
import json
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from cause.service.problems import KINDS, PREFIX

MOST_HEAD = 65_536
"""Bytes of a request before its body: a parser must not be fed for ever."""
LINGER_S = 5.0
"""How long the rest of a body may take that nobody reads any more."""


class BoundedProtocol(HttpToolsProtocol):
    """Ends a connection whose request line and headers do not end, or not in time, and one that is one too many.

    What a client does not read, and so holds in memory here, ends it, too.
    """

    most_connections = 256
    slow_s = 30.0

    _head = 0
    _in_head = True
    _tail = b""
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._asked: list[RequestResponseCycle] = []  # and not yet answered: a client need not wait for its answers
        self.ws_protocol_class = None  # nothing here speaks WebSocket, and what did would pass by gate and bounds
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._refuse(503, f"too many connections: at most {self.most_connections}")
        else:
            self._allow(self.slow_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._allow(None)
        self._read_on()
        super().connection_lost(exc)
        for cycle in self._asked:  # uvicorn tells the last one only, and a stream would never end
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            if self._timer is None:
                self._allow(self.slow_s)
            end = (self._tail + data).find(b"\r\n\r\n")  # it may lie across two pieces
            self._head += len(data) if end < 0 else end
            self._tail = data[-3:]
            if self._head > MOST_HEAD:
                self._refuse(431, f"a request has at most {MOST_HEAD:,} bytes before its body")
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._allow(None)
        super().on_headers_complete()
        self._asked.append(self.cycle)

    def on_message_complete(self) -> None:
        self._in_head, self._head, self._tail = True, 0, b""
        self._allow(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._asked = [cycle for cycle in self._asked if not cycle.response_complete]
        super().on_response_complete()
        if not self._in_head and self.cycle.response_complete:
            self._allow(LINGER_S)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not HTTP as it should be")

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.slow_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_on()

    def _read_on(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _allow(self, seconds: float | None) -> None:
        """From now on so much time for what comes next; None: as much as it wants."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._timer = None
        if self._in_head and (self.cycle is None or self.cycle.response_complete):
            self._refuse(408, f"the headers did not come within {self.slow_s:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        """Without a request that could be answered."""
        kind, title = KINDS[status]
        body = json.dumps({"type": PREFIX + kind, "title": title, "status": status, "detail": detail}).encode()
        again = b"retry-after: 1\r\n" if status == 503 else b""
        head = f"HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + again + b"connection: close\r\n\r\n" + body)
        self.transport.close()


def bounded(connections: int, slow_s: float) -> type[BoundedProtocol]:
    """The protocol with these limits."""
    made: Any = type("Bounded", (BoundedProtocol,), {"most_connections": connections, "slow_s": slow_s})
    return cast(type[BoundedProtocol], made)
