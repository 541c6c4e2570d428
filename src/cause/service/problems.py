"""Errors as `application/problem+json` (RFC 9457)."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

Documented = dict[int | str, dict[str, Any]]
PREFIX = "urn:cause:problem:"
KINDS: Mapping[int, tuple[str, str]] = {
    400: ("bad-request", "The request cannot be understood"),
    401: ("unauthorized", "A valid token is needed"),
    403: ("forbidden", "This token does not allow it"),
    404: ("not-found", "There is no such thing"),
    405: ("method-not-allowed", "Not with this method"),
    408: ("timeout", "The request did not arrive in time"),
    409: ("conflict", "This is not possible now"),
    413: ("too-large", "The request is too large"),
    415: ("unsupported-media-type", "Samples do not come in this form"),
    422: ("invalid", "Something in the request is not as it should be"),
    429: ("rate-limited", "Too many requests"),
    431: ("headers-too-large", "The headers are too large"),
    500: ("internal", "Something went wrong here"),
    503: ("unavailable", "Not now"),
}
STORAGE_FULL = "storage-full", "There is no room for more samples"
QUOTA = "quota-exceeded", "The user's quota is used up"


class ProblemError(Exception):
    """A refusal, answered as a problem.

    Parameters
    ----------
    status
        The HTTP status.
    detail
        One sentence for the client.
    headers
        Headers of the response.
    errors
        What is wrong in the body, for each place.
    kind
        Name and title of the problem; by default those of the status.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        headers: Mapping[str, str] | None = None,
        errors: list[Any] | None = None,
        kind: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.errors = status, detail, dict(headers or {}), errors
        self.kind = kind

    def response(self) -> JSONResponse:
        """Return the refusal as a response."""
        return problem_response(self.status, self.detail, self.headers, self.errors, self.kind)


def problem_response(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    errors: list[Any] | None = None,
    kind: tuple[str, str] | None = None,
) -> JSONResponse:
    """Return a problem as a response; the parameters are those of `ProblemError`."""
    name, title = kind or KINDS.get(status, ("bad-request", "The request cannot be served"))
    body: dict[str, Any] = {"type": PREFIX + name, "title": title, "status": status, "detail": detail}
    if errors:
        body["errors"] = errors
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")


def text(media_type: str, description: str) -> Documented:
    """Return the schema of a response that is text and not JSON."""
    return {200: {"description": description, "content": {media_type: {"schema": {"type": "string"}}}}}


def documented(*statuses: int) -> Documented:
    """Return the schemas of the problems that a route may answer with: these statuses and those of every route."""
    responses: Documented = {}
    for status in sorted({400, 401, 403, 413, 429, 431, 503, *statuses}):
        kind, title = KINDS[status]
        example = {"type": PREFIX + kind, "title": title, "status": status, "detail": title}
        content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}
        responses[status] = {"description": title, "content": {"application/problem+json": content}}
        if status in (429, 503):
            responses[status]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds"}}
    return responses
