"""What every request passes before anything is read: sizes, token, rates, security headers, the access log."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from cause.errors import HomeError
from cause.service import problems
from cause.service.concurrency import Crowd
from cause.service.limits import Rate
from cause.service.metrics import Metrics
from cause.service.redact import kind_of, where
from cause.service.settings import ServeSettings
from cause.service.tokens import Token, Tokens

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER_BYTES = 16_384
SMALL_BODY_BYTES = 1 << 18
"""For requests that carry no samples: an erasure that names as many as it may."""
LARGE = ("/samples", "/samples/matching", "/predictions", "/evaluations")
GUARDED = ("/v1", "/metrics")
STREAM = "/v1/events"
ALIVE = ("/healthz", "/readyz")
"""Answered however many requests there are, or a busy device would be taken for a dead one."""
BODY_BYTES_S = 65_536
"""A body that comes so fast has all the time it needs."""
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


class TooLargeError(HTTPException):
    """More came than was allowed."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"a request has at most {most:,} bytes", {"Connection": "close"})


class TooSlowError(HTTPException):
    """It did not come in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(408, f"the body did not come within {seconds:.3g} s", {"Connection": "close"})


class Gate:
    """Wraps the application."""

    def __init__(self, app: App, tokens: Tokens, metrics: Metrics, settings: ServeSettings) -> None:
        self._app, self._tokens, self._metrics = app, tokens, metrics
        self._body_bytes, self._slow_s = settings.body_bytes, settings.slow_s
        self._rate, self._attempts = Rate(settings.rate), Rate(settings.attempts)
        self._requests = Crowd("requests", settings.requests, settings.requests_each)
        self._streams = Crowd("streams", settings.streams, settings.streams_each)
        self._headers = list(SECURITY) if settings.tls_cert is None else [*SECURITY, TLS_ONLY]

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
        crowd: Crowd | None = None
        try:
            refusal = self._refused(scope, guarded)
            if isinstance(refusal, problems.ProblemError):
                raise refusal
            token = refusal
            if path not in ALIVE:
                wanted = self._streams if path == STREAM else self._requests
                if full := wanted.enter(None if token is None else token.id):
                    raise full
                crowd = wanted
            scope.setdefault("state", {})["token"] = token
            await self._app(scope, self._counted(scope, receive), sending)
        except ClientDisconnect:
            status = 400  # nobody is there to be answered
        except problems.ProblemError as problem:
            answer = problems.answer(problem.status, problem.detail, problem.headers, problem.errors)
            await answer(scope, receive, sending)
        except Exception as error:
            # where it happened, but not what it says: that may name somebody
            log.error("unexpected %s", type(error).__name__, extra={"detail": where(error)})
            if begun:
                raise
            await problems.answer(500, "something went wrong here: the log tells more")(scope, receive, sending)
        finally:
            if crowd is not None:
                crowd.leave(None if token is None else token.id)
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
        try:
            token = self._tokens.find(secret.strip().decode("latin-1")) if kind.lower() == b"bearer" else None
        except HomeError as error:  # a command may hold their file for long
            log.error("the tokens cannot be read: %s", kind_of(error), extra={"detail": where(error)})
            return problems.ProblemError(503, "no token can be looked up now: the log tells more", {"Retry-After": "5"})
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
        """Never more than is allowed, nor slower."""
        most, seen, start, whole = self._most(scope), 0, time.monotonic(), False

        async def receiving() -> Message:
            nonlocal seen, whole
            if whole:  # what comes now is that the client went away
                return await receive()
            allowed = self._slow_s + seen / BODY_BYTES_S
            try:
                async with asyncio.timeout(start + allowed - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise TooSlowError(allowed) from None
            seen += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if seen > most:
                raise TooLargeError(most)
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
