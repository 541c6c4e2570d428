"""Reading request bodies: their bytes in memory are limited, and so is how many are unpacked at once."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from cause.service.limits import UNCOUNTED_BYTES, MemoryBudget, PerTokenSemaphore, Reservation
from cause.service.problems import ProblemError

T = TypeVar("T")


class BodyReader:
    """Reads bodies on an event loop and processes them in threads.

    Parameters
    ----------
    arriving_bytes
        What all bodies may take together until they are processed.
    unpackings
        How many bodies are unpacked at once.
    """

    def __init__(self, arriving_bytes: int, unpackings: int) -> None:
        self._budget, self._slots = MemoryBudget(arriving_bytes), asyncio.Semaphore(unpackings)
        self._unpacking, self._reading = PerTokenSemaphore(unpackings), PerTokenSemaphore(1)

    async def unpack(self, request: Request, work: Callable[[bytes], T], *, quick: bool = False) -> T:
        """Read a body with samples and return `work(body)`, run in a thread that holds an unpacking slot.

        Parameters
        ----------
        request
            The request whose body is read.
        work
            Called with the whole body.
        quick
            Run `work` on the event loop if the body is short: a thread would take longer to start.

        Raises
        ------
        ProblemError
            503 if there is no memory for the body now.
        """
        token = request.state.token.id
        reservation = self._budget.reserve(token)
        try:
            body = await self._read(request, reservation)
            if quick and len(body) <= UNCOUNTED_BYTES:
                return work(body)
            # one token has no more requests in the queue for a slot than there are slots
            async with self._unpacking.of(token), self._slots:
                return await run_in_threadpool(work, body)
        finally:
            reservation.release()

    async def read(self, request: Request, work: Callable[[bytes], T]) -> T:
        """Read a body without samples and return `work(body)`, run in a thread without an unpacking slot.

        One token runs one at a time: several would wait for each other inside `work` and use up the threads.
        """
        token = request.state.token.id
        reservation = self._budget.reserve(token)
        try:
            body = await self._read(request, reservation)
            async with self._reading.of(token):
                return await run_in_threadpool(work, body)
        finally:
            reservation.release()

    async def run_in_slot(self, work: Callable[[], T]) -> T:
        """Return `work()`, run in a thread that holds an unpacking slot."""
        async with self._slots:
            return await run_in_threadpool(work)

    async def _read(self, request: Request, reservation: Reservation) -> bytes:
        header = request.headers.get("content-length", "")
        announced = int(header) if header.isdigit() else 0  # the middleware has checked that it is not too large
        received, pieces = 0, []
        self._hold(reservation, announced)
        async for piece in request.stream():
            received += len(piece)
            if received > announced:
                self._hold(reservation, received)
            pieces.append(piece)
        return b"".join(pieces)

    def _hold(self, reservation: Reservation, size: int) -> None:
        if not reservation.resize(size):
            limit = f"at most {self._budget.most_bytes:,} bytes (setting `arriving`)"
            raise ProblemError(503, f"too much arrives at once, {limit}: send it again", {"Retry-After": "1"})
