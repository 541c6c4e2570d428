"""What every request passes before anything is read: sizes, token, rates, security headers, the access log."""

import logging
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from cause.serve import problems
from cause.serve.limits import Rate
from cause.serve.metrics import Metrics
from cause.serve.tokens import Token, Tokens

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER_BYTES = 16_384
SMALL_BODY_BYTES = 1 << 20
"""For requests that carry no samples."""
LARGE = ("/samples", "/predictions", "/evaluations")
GUARDED = ("/v1", "/metrics")
log, access = logging.getLogger("cause.serve"), logging.getLogger("cause.serve.access")

SECURITY = (
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")


class TooLargeError(Exception):
    """More came than was allowed."""


class Gate:
    """Wraps the application."""

    def __init__(
        self, app: App, tokens: Tokens, metrics: Metrics, *, body_bytes: int, rate: float, attempts: float, tls: bool
    ) -> None:
        self._app, self._tokens, self._metrics = app, tokens, metrics
        self._body_bytes = body_bytes
        self._rate, self._attempts = Rate(rate), Rate(attempts)
        self._headers = [*SECURITY, TLS_ONLY] if tls else list(SECURITY)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        path = scope["path"]
        guarded = path == GUARDED[0] or path.startswith(("/v1/", "/metrics"))
        begun = False

        async def sending(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                begun, status = True, message["status"]
                headers = list(message.get("headers", ()))
                headers += self._headers
                if not any(name == b"cache-control" for name, _ in headers):
                    # the dashboard's files are asked for again, by ETag: those of two versions do not go together
                    headers.append((b"cache-control", b"no-store" if guarded else b"no-cache"))
                message = {**message, "headers": headers}
            await send(message)

        token: Token | None = None
        try:
            refusal = self._refused(scope, guarded)
            if not isinstance(refusal, problems.ProblemError):
                token = refusal
                scope.setdefault("state", {})["token"] = token
                await self._app(scope, self._counted(scope, receive), sending)
            else:
                raise refusal
        except TooLargeError as error:
            if not begun:
                await problems.answer(413, str(error), {"Connection": "close"})(scope, receive, sending)
        except problems.ProblemError as problem:
            answer = problems.answer(problem.status, problem.detail, problem.headers, problem.errors)
            await answer(scope, receive, sending)
        except Exception as error:
            # where it happened, but not what it says: that may name somebody
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("unexpected %s", type(error).__name__, extra={"detail": where})
            if begun:
                raise
            await problems.answer(500, "something went wrong here: the log tells more")(scope, receive, sending)
        finally:
            took = time.perf_counter() - start
            route = _route(scope, path, guarded)
            self._metrics.request(scope["method"] if scope["method"].isalpha() else "?", route, status, took)
            if access.isEnabledFor(logging.INFO):
                told = {"method": scope["method"][:16], "route": route, "status": status, "ms": round(1e3 * took, 2)}
                access.info("request", extra=told | {"token": None if token is None else token.id})

    def _refused(self, scope: Scope, guarded: bool) -> "problems.ProblemError | Token | None":
        """A problem, or whose request this is."""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES:
            return problems.ProblemError(431, f"the headers have more than {HEADER_BYTES:,} bytes")
        most = self._most(scope)
        length = _header(scope, b"content-length")
        if length is not None and (not length.isdigit() or len(length) > 18 or int(length) > most):
            return problems.ProblemError(413, f"a request has at most {most:,} bytes", {"Connection": "close"})
        if not guarded:
            return None
        address = (scope.get("client") or ("?",))[0]
        kind, _, secret = (_header(scope, b"authorization") or b"").partition(b" ")
        token = self._tokens.find(secret.strip().decode("latin-1")) if kind.lower() == b"bearer" else None
        if token is None:
            # a valid token passes whatever others do from its address: behind a proxy all have the same one
            if wait := self._attempts.taken(address):
                return problems.ProblemError(
                    429, "too many failed attempts from this address", {"Retry-After": str(wait)}
                )
            return problems.ProblemError(401, "send Authorization: Bearer SECRET", {"WWW-Authenticate": "Bearer"})
        wait = self._rate.taken(token.id)
        if wait:
            return problems.ProblemError(429, "too many requests with this token", {"Retry-After": str(wait)})
        return token

    def _most(self, scope: Scope) -> int:
        return self._body_bytes if scope["path"].endswith(LARGE) else min(self._body_bytes, SMALL_BODY_BYTES)

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        most, seen = self._most(scope), 0

        async def receiving() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise TooLargeError(f"a request has at most {most:,} bytes")
            return message

        return receiving


def _header(scope: Scope, name: bytes) -> bytes | None:
    found = [value for each, value in scope["headers"] if each == name]
    return found[0] if found else None


def _route(scope: Scope, path: str, guarded: bool) -> str:
    """A route's pattern, never the path itself: users' names are in there."""
    route = scope.get("route")
    pattern = getattr(route, "path", None)
    if isinstance(pattern, str) and pattern:
        return pattern
    return "unknown" if guarded else "static"
