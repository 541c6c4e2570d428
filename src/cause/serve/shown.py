"""How things are written in answers."""

import hashlib
from datetime import UTC, datetime

from fastapi import Request, Response
from pydantic import BaseModel


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
