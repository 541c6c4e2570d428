"""uvicorn's HTTP protocol with limits: connections, size of the headers, and how long a client may take.

uvicorn has no settings for these limits. `uvicorn.Config(http=…)` takes a protocol class, but does not document what a
subclass of its own may use. pyproject.toml therefore bounds uvicorn's version, and `tests/service/test_protocol.py`
checks everything that is used here.
"""

import asyncio
import itertools
import json
from collections import Counter
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from cause.service.problems import KINDS, PREFIX

MOST_HEAD_BYTES = 65_536
"""Of a request before its body. The parser itself has no limit."""
_OPENED = itertools.count()
LINGER_S = 5.0
"""How long the rest of a body may take after its request was answered."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections beyond the limit, and those whose headers are too long or arrive too slowly.

    It also closes a connection whose client does not read its response, which is held in memory.
    """

    most_connections = 256
    slow_s = 30.0

    _head_bytes = 0
    _in_head = True
    _other_bytes = 0
    """After the headers: bytes since the last part of the body. They are sizes of chunks, and trailers."""
    _tail = b""
    _read_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse a connection beyond the limit; otherwise wait for the first request."""
        self._opened = next(_OPENED)
        self._unanswered: list[RequestResponseCycle] = []  # several if the client pipelines its requests
        self.ws_protocol_class = None  # a WebSocket would bypass the middleware and these limits
        super().connection_made(transport)
        if len(self.connections) > self.most_connections and not self._close_an_idle_one():
            self._refuse(503, f"too many connections: at most {self.most_connections}")
        else:
            self._set_read_timer(self.slow_s)

    def _close_an_idle_one(self) -> bool:
        """Make room: close the oldest connection without a request under way, of the address that has the most.

        So connections that send nothing, or the half of a request, keep nobody else out. A client whose idle
        connection is closed opens another one.

        Returns
        -------
        False if every connection has a request under way.
        """
        idle: dict[str, list[BoundedProtocol]] = {}
        counts: Counter[str] = Counter()
        for connection in cast("set[BoundedProtocol]", self.connections):
            address = (connection.client or ("?",))[0]
            if connection.transport.is_closing():
                continue
            counts[address] += 1
            if connection is not self and not connection._unanswered:
                idle.setdefault(address, []).append(connection)
        if not idle:
            return False
        victims = idle[max(idle, key=lambda address: counts[address])]
        min(victims, key=lambda connection: connection._opened).transport.abort()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all requests under way that the client is gone."""
        self._set_read_timer(None)
        self._cancel_write_timer()
        super().connection_lost(exc)
        for cycle in self._unanswered:  # uvicorn notifies the last request only: an earlier stream would never end
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser, unless the headers are too long."""
        if self.transport.is_closing():
            return
        if self._in_head:
            if self._read_timer is None:
                self._set_read_timer(self.slow_s)
            end = (self._tail + data).find(b"\r\n\r\n")  # it may be split between two calls
            self._head_bytes += len(data) if end < 0 else end
            self._tail = data[-3:]
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(431, f"a request has at most {MOST_HEAD_BYTES:,} bytes before its body")
                return
        self._other_bytes += len(data)
        super().data_received(data)
        if not self._in_head and self._other_bytes > MOST_HEAD_BYTES:
            self.transport.abort()  # the parser keeps a trailer until its end; a response may be half sent already

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; ignore trailers, which come after the request was checked and which proxies do not check."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._other_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Note a request whose headers are complete."""
        self._in_head, self._other_bytes = False, 0
        self._set_read_timer(None)
        super().on_headers_complete()
        self._unanswered.append(self.cycle)

    def on_message_complete(self) -> None:
        """Wait for the headers of the next request."""
        self._in_head, self._head_bytes, self._other_bytes, self._tail = True, 0, 0, b""
        self._set_read_timer(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Limit the time for the rest of a body that is no longer needed."""
        self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete]
        super().on_response_complete()
        if not self._in_head and self.cycle.response_complete:
            self._set_read_timer(LINGER_S)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP as a problem."""
        self._refuse(400, "this is not HTTP as it should be")

    def pause_writing(self) -> None:
        """Start the time in which the client must read its response."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.slow_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the time: the client reads."""
        super().resume_writing()
        self._cancel_write_timer()

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _set_read_timer(self, seconds: float | None) -> None:
        """Limit the time until the next step of the request; None removes the limit."""
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._read_timer = None if seconds is None else self.loop.call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        self._read_timer = None
        if self._in_head and (self.cycle is None or self.cycle.response_complete):
            self._refuse(408, f"the headers did not come within {self.slow_s:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        """Send a problem outside of any request, and close the connection."""
        kind, title = KINDS[status]
        body = json.dumps({"type": PREFIX + kind, "title": title, "status": status, "detail": detail}).encode()
        retry_after = b"retry-after: 1\r\n" if status == 503 else b""
        head = f"HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + retry_after + b"connection: close\r\n\r\n" + body)
        self.transport.close()


def bounded_protocol(connections: int, slow_s: float) -> type[BoundedProtocol]:
    """Return a protocol class with these limits, for `uvicorn.Config(http=…)`.

    Parameters
    ----------
    connections
        The most connections at once.
    slow_s
        How many seconds headers may take to arrive, and a response to be read.
    """
    protocol: Any = type("Bounded", (BoundedProtocol,), {"most_connections": connections, "slow_s": slow_s})
    return cast(type[BoundedProtocol], protocol)
