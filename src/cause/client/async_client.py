"""The asynchronous client, for programs with an event loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.client import calls
from cause.client.calls import EVENTS_TIMEOUT, LOOK_S, WAIT_S, Call, EventParser, retry_pause_s, service_error
from cause.client.shapes import (
    Bundle,
    Evaluation,
    Event,
    HeldSample,
    Log,
    Matched,
    Predictions,
    Request,
    Round,
    Upload,
    Uploads,
    Verification,
    from_json,
)
from cause.client.status import Status

T = TypeVar("T")


class AsyncClient:
    """Calls one service with one token; every method is as that of `Client`, and is awaited.

    Parameters
    ----------
    url, token, timeout_s, retries, verify
        As for `Client`.
    transport
        An asynchronous transport of httpx, for tests.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = 30.0,
        retries: int = 3,
        verify: Any = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._retries = retries
        self._http = httpx.AsyncClient(transport=transport, **calls.connection(url, token, timeout_s, verify))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def upload(self, user: str, x: ArrayLike, y: ArrayLike, *, key: str | None = None) -> Upload:
        """As `Client.upload`."""
        return await self._do(calls.upload(user, x, y, key))

    async def upload_all(
        self, x: ArrayLike, y: ArrayLike, users: Sequence[str] | NDArray[np.str_], *, key: str | None = None
    ) -> Uploads:
        """As `Client.upload_all`."""
        return await self._do(calls.upload_all(x, y, users, key))

    async def close_round(self, *, key: str | None = None, empty: bool = False, wait: bool = False) -> Round:
        """As `Client.close_round`."""
        round_ = await self._do(calls.close_round(key, empty))
        end = time.monotonic() + WAIT_S
        while wait and round_.state == "training" and time.monotonic() < end:
            await asyncio.sleep(LOOK_S)
            round_ = await self.round(round_.round)
        return round_

    async def round(self, number: int) -> Round:
        """As `Client.round`."""
        return await self._do(calls.round_(number))

    async def predict(self, x: ArrayLike, *, probabilities: bool = False) -> Predictions:
        """As `Client.predict`."""
        return await self._do(calls.predict(x, probabilities))

    async def evaluate(self, x: ArrayLike, y: ArrayLike) -> Evaluation:
        """As `Client.evaluate`."""
        return await self._do(calls.evaluate(x, y))

    async def erase(
        self,
        user: str,
        *,
        rounds: Sequence[int] | None = None,
        count: int | None = None,
        samples: Sequence[tuple[int, int]] | None = None,
        handles: Sequence[str] | None = None,
        matching: "tuple[ArrayLike, ArrayLike | None] | None" = None,
        nonce: str | None = None,
        key: str | None = None,
    ) -> Request:
        """As `Client.erase`."""
        calls.refuse_both(handles, matching)
        matched = None if matching is None else await self.match(user, *matching)
        body = calls.erasure(rounds, count, samples, calls.matched_handles(handles, matched), nonce)
        return await self._do(calls.erase(user, body, key))

    async def erase_all(
        self, erasures: Mapping[str, Mapping[str, Any]], *, key: str | None = None
    ) -> dict[str, Request]:
        """As `Client.erase_all`."""
        return await self._do(calls.erase_all(erasures, key))

    async def plan(
        self,
        user: str,
        *,
        rounds: Sequence[int] | None = None,
        count: int | None = None,
        samples: Sequence[tuple[int, int]] | None = None,
        handles: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """As `Client.plan`."""
        return await self._do(calls.plan(user, calls.erasure(rounds, count, samples, handles)))

    async def match(self, user: str, x: ArrayLike, y: ArrayLike | None = None) -> Matched:
        """As `Client.match`."""
        return await self._do(calls.match(user, x, y))

    async def request(self, id_: str) -> Request:
        """As `Client.request`."""
        return await self._do(calls.request(id_))

    async def requests(
        self, *, state: str | None = None, prefix: str | None = None, since: str | None = None, until: str | None = None
    ) -> AsyncIterator[Request]:
        """As `Client.requests`, for `async for`."""
        query = calls.request_filter(state, prefix, since, until)
        async for item in self._pages("/v1/requests", query):
            yield from_json(Request, item)

    async def repair(self, *, wait: bool = False, from_scratch: Sequence[int] = ()) -> list[int]:
        """As `Client.repair`."""
        waiting, end = await self._do(calls.repair(from_scratch)), time.monotonic() + WAIT_S
        while wait and waiting and time.monotonic() < end:
            await asyncio.sleep(LOOK_S)
            waiting = (await self.status())["repair"]["waiting"]
        return waiting

    async def receipts(self, request: str) -> list[Bundle]:
        """As `Client.receipts`."""
        return await self._do(calls.receipts(request))

    async def verify(self, receipt: int | None = None, *, wait: bool = True, wait_s: float = WAIT_S) -> Verification:
        """As `Client.verify`."""
        verification, end = await self._do(calls.verify(receipt)), time.monotonic() + wait_s
        while wait and verification.state == "running" and time.monotonic() < end:
            await asyncio.sleep(LOOK_S)
            verification = await self.verification(verification.id)
        return verification

    async def verification(self, id_: str) -> Verification:
        """As `Client.verification`."""
        return await self._do(calls.verification(id_))

    async def log(self) -> Log:
        """As `Client.log`."""
        return await self._do(calls.log())

    async def status(self) -> Status:
        """As `Client.status`."""
        status: Status = await self._do(calls.get("/v1/status"))
        return status

    async def user(self, user: str) -> dict[str, Any]:
        """As `Client.user`."""
        return await self._do(calls.user(user))

    async def samples(self, user: str, *, round: int | None = None) -> AsyncIterator[HeldSample]:  # noqa: A002
        """As `Client.samples`, for `async for`."""
        query = "" if round is None else f"&round={round:d}"
        async for item in self._pages(calls.path_of(user, "/samples"), query):
            yield from_json(HeldSample, item)

    async def shards(self) -> list[dict[str, Any]]:
        """As `Client.shards`."""
        shards: list[dict[str, Any]] = (await self._do(calls.get("/v1/shards")))["shards"]
        return shards

    async def events(self, *, after: int | None = None) -> AsyncGenerator[Event]:
        """As `Client.events`, for `async for`."""
        async with self._http.stream("GET", calls.events_path(after), timeout=EVENTS_TIMEOUT) as response:
            if response.status_code != 200:
                await response.aread()
                raise service_error(response)
            parser = EventParser()
            async for line in response.aiter_lines():
                event = parser.add(line)
                if event is not None:
                    yield event

    async def _pages(self, path: str, query: str = "") -> AsyncIterator[dict[str, Any]]:
        before: int | None = None
        while True:
            page = await self._do(calls.page(path, query, before))
            for item in page["items"]:
                yield item
            before = page["next"]
            if before is None:
                return

    async def _do(self, call: Call[T]) -> T:
        """Send a call, again while the service is busy, and return its result."""
        attempt = 0
        while True:
            response = await self._http.request(call.method, call.path, content=call.content, headers=call.headers)
            pause = retry_pause_s(response, attempt, self._retries)
            if pause is None:
                return call.result(response)
            await asyncio.sleep(pause)
            attempt += 1
