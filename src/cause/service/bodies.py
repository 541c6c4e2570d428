"""Bodies: what arrives together is bounded, and so is how many are unpacked at once."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from cause.service.memory_budget import FREE, Room, Share
from cause.service.per_token import Turns
from cause.service.problems import ProblemError

T = TypeVar("T")


class Bodies:
    """Reads them on an event loop, and lets threads unpack them."""

    def __init__(self, arriving_bytes: int, unpackings: int) -> None:
        self._room, self._slots = Room(arriving_bytes), asyncio.Semaphore(unpackings)
        self._unpacking, self._turns = Turns(unpackings), Turns(1)

    async def unpacked(self, request: Request, work: Callable[[bytes], T], *, quick: bool = False) -> T:
        """What becomes of a body. One that is short and `quick` is read here: a thread would take longer to begin."""
        who = request.state.token.id
        share = self._room.share(who)
        try:
            body = await self._read(request, share)
            if quick and len(body) <= FREE:
                return work(body)
            async with self._unpacking.of(who), self._slots:  # of one token no more wait for a slot than there are
                return await run_in_threadpool(work, body)
        finally:
            share.let_go()

    async def read(self, request: Request, work: Callable[[bytes], T]) -> T:
        """What becomes of a body without samples: in a thread, and it waits for none that is unpacked.

        Of each token one at a time: they would wait for each other there, and there are not many threads.
        """
        who = request.state.token.id
        share = self._room.share(who)
        try:
            body = await self._read(request, share)
            async with self._turns.of(who):
                return await run_in_threadpool(work, body)
        finally:
            share.let_go()

    async def apart(self, work: Callable[[], T]) -> T:
        """In a thread, as one of those that unpack."""
        async with self._slots:
            return await run_in_threadpool(work)

    async def _read(self, request: Request, share: Share) -> bytes:
        told = request.headers.get("content-length", "")
        wanted = int(told) if told.isdigit() else 0  # the gate has looked at it
        seen, pieces = 0, []
        self._hold(share, wanted)
        async for piece in request.stream():
            seen += len(piece)
            if seen > wanted:
                self._hold(share, seen)
            pieces.append(piece)
        return b"".join(pieces)

    @staticmethod
    def _hold(share: Share, size: int) -> None:
        if not share.hold(size):
            raise ProblemError(503, "too much arrives at once: send it again", {"Retry-After": "1"})
