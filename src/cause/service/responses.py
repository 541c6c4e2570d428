"""How things are written in answers."""

import hashlib
from datetime import UTC, datetime

from fastapi import Request, Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from cause.service.memory_budget import Share

PIECE = 65_536


def moment(seconds: float) -> str:
    """A time.

    >>> moment(0.0)
    '1970-01-01T00:00:00.000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def maybe(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)


def reply(request: Request, model: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON; of a GET with its ETag, or 304 when the client has it."""
    body = model.model_dump_json().encode()
    told = dict(headers or {})
    if request.method == "GET":
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        told |= {"ETag": etag, "Cache-Control": "private, no-cache"}
        known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
        if etag in known:
            return Response(None, 304, told)
    return Response(body, status, told, media_type="application/json")


class InPieces(Response):
    """A long answer, sent as fast as it is read; the memory that is counted for it is let go when it is gone."""

    def __init__(self, body: bytes, share: Share) -> None:
        super().__init__(body, media_type="application/json")
        self._share = share

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            whole = memoryview(self.body)
            for start in range(0, max(1, len(whole)), PIECE):
                end = start + PIECE
                piece = bytes(whole[start:end])
                await send({"type": "http.response.body", "body": piece, "more_body": end < len(whole)})
        finally:
            self._share.let_go()
