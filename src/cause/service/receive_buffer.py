"""Overwrite the buffer into which the event loop receives.

uvloop receives from all sockets into one buffer of 256,000 bytes that it keeps, and copies from there. So the last long
request stays in it, all but its beginning, until another one is as long. Receiving zeros overwrites it.
"""

import asyncio
import socket
from contextlib import suppress

RECEIVE_BYTES = 256_000
"""As uvloop has it (UV_STREAM_RECV_BUF_SIZE)."""


class _Discard(asyncio.Protocol):
    def __init__(self, done: "asyncio.Future[None]") -> None:
        self._done = done

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)


async def overwrite_receive_buffer() -> int:
    """Let the running loop receive zeros, as many as its buffer holds.

    Returns
    -------
    How many were received at once: fewer where the system allows sockets only small buffers.
    """
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    sent = 0
    try:
        with ours:
            ours.setblocking(False)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * RECEIVE_BYTES)
            with suppress(BlockingIOError):
                while sent < RECEIVE_BYTES:
                    sent += ours.send(bytes(RECEIVE_BYTES - sent))
    except BaseException:
        theirs.close()
        raise
    done = loop.create_future()
    transport, _ = await loop.create_connection(lambda: _Discard(done), sock=theirs)
    try:
        await done
    finally:
        transport.close()
    return sent
