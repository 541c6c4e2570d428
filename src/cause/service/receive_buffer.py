"""Overwriting the buffer into which the event loop receives.

uvloop receives from all sockets into one buffer of 256,000 bytes, which it keeps, and copies from there. So the end of
the last long request stays in the buffer until another request is as long. Receiving zeros overwrites it.
"""

import asyncio
import socket
from contextlib import suppress

RECEIVE_BYTES = 256_000
"""The size of uvloop's buffer (UV_STREAM_RECV_BUF_SIZE)."""


class _Discard(asyncio.Protocol):
    def __init__(self, done: "asyncio.Future[None]") -> None:
        self._done = done

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)


async def overwrite_receive_buffer() -> int:
    """Let the running loop receive as many zeros as its buffer holds.

    Returns
    -------
    How many zeros were received at once: fewer than the buffer holds where the system limits the buffers of sockets.
    """
    loop = asyncio.get_running_loop()
    sender, receiver = socket.socketpair()
    sent = 0
    try:
        with sender:
            sender.setblocking(False)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * RECEIVE_BYTES)
            with suppress(BlockingIOError):
                while sent < RECEIVE_BYTES:
                    sent += sender.send(bytes(RECEIVE_BYTES - sent))
    except BaseException:
        receiver.close()
        raise
    done = loop.create_future()
    transport, _ = await loop.create_connection(lambda: _Discard(done), sock=receiver)
    try:
        await done
    finally:
        transport.close()
    return sent
