"""How responses are written: timestamps, JSON with an ETag, and long bodies in chunks."""

import hashlib
from datetime import UTC, datetime

from fastapi import Request, Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from cause.service.limits import Reservation

CHUNK_BYTES = 65_536


def timestamp(seconds: float) -> str:
    """Return seconds since 1970 as an ISO 8601 time in UTC.

    >>> timestamp(0.0)
    '1970-01-01T00:00:00.000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def optional_timestamp(seconds: float | None) -> str | None:
    """Return `timestamp(seconds)`, or None for None."""
    return None if seconds is None else timestamp(seconds)


def json_response(
    request: Request, model: BaseModel, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a model as a JSON response.

    The response to a GET has an ETag; if the client sent the same one in If-None-Match, the response is an empty 304.

    Parameters
    ----------
    request
        The request that is answered.
    model
        The body.
    status
        The status, except for a 304.
    headers
        Headers to add.
    """
    body = model.model_dump_json().encode()
    headers = dict(headers or {})
    if request.method == "GET":
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers |= {"ETag": etag, "Cache-Control": "private, no-cache"}
        client_etags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if etag in client_etags:
            return Response(None, 304, headers)
    return Response(body, status, headers, media_type="application/json")


class ChunkedResponse(Response):
    """A long JSON body, sent in chunks as fast as the client reads; its reservation is released after the last one."""

    def __init__(self, body: bytes, reservation: Reservation) -> None:
        super().__init__(body, media_type="application/json")
        self._reservation = reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            body = memoryview(self.body)
            for start in range(0, max(1, len(body)), CHUNK_BYTES):
                end = start + CHUNK_BYTES
                chunk = bytes(body[start:end])
                await send({"type": "http.response.body", "body": chunk, "more_body": end < len(body)})
        finally:
            self._reservation.release()
