"""The middleware that every request passes: sizes, tokens, rates, security headers, metrics and the access log."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from cause.errors import HomeError
from cause.service import problems
from cause.service.limits import ConcurrencyLimit, RateLimiter
from cause.service.redact import redacted_message, redacted_traceback
from cause.service.service import Service
from cause.service.settings import ServeSettings, host_name
from cause.service.tokens import Token
from cause.service.user_paths import USERS, quoted_user

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER_BYTES = 16_384
SMALL_BODY_BYTES = 1 << 18
"""The limit for requests without samples. The longest erasure fits into it."""
LARGE = ("/samples", "/samples/matching", "/predictions", "/evaluations")
STREAM = "/v1/events"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Methods that metrics name; a client could make up any number of others."""
ONCE = (b"authorization", b"content-type", b"idempotency-key", b"last-event-id")
"""Headers that a request has at most once."""
ALIVE = ("/healthz", "/readyz")
"""Answered however many requests are under way; otherwise a busy device would look like a dead one."""
BODY_BYTES_S = 65_536
"""A body that arrives at this rate or faster never times out."""
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
    """The body is longer than is allowed."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"a request has at most {most:,} bytes", {"Connection": "close"})


class TooSlowError(HTTPException):
    """The body did not arrive in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(408, f"the body did not come within {seconds:.3g} s", {"Connection": "close"})


class ServiceMiddleware:
    """ASGI middleware: checks a request, passes it on, and answers errors as problems.

    Parameters
    ----------
    app
        The application to pass requests on to.
    service
        Its tokens, metrics and limits are used.
    """

    def __init__(self, app: App, service: Service) -> None:
        settings = service.settings
        self._app, self._tokens, self._metrics = app, service.tokens, service.metrics
        self._rates, self._failed_attempts = RateLimiter(settings.rate), RateLimiter(settings.attempts)
        self._requests = ConcurrencyLimit("requests", settings.requests, settings.requests_per_token)
        self._streams = ConcurrencyLimit("streams", settings.streams, settings.streams_per_token)
        self._headers = list(SECURITY) if settings.tls_cert is None else [*SECURITY, TLS_ONLY]
        self._apply(settings)
        service.on_reload.append(self._apply)

    def _apply(self, settings: ServeSettings) -> None:
        """Use these limits from now on."""
        self._body_bytes, self._slow_s, self._hosts = settings.body_bytes, settings.slow_s, settings.allowed_hosts
        self._rates.configure(settings.rate)
        self._failed_attempts.configure(settings.attempts)
        self._requests.configure(settings.requests, settings.requests_per_token)
        self._streams.configure(settings.streams, settings.streams_per_token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; other events (the lifespan) are passed on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        path = scope["path"] = quoted_user(scope)
        guarded = path == "/v1" or path.startswith(("/v1/", "/metrics"))
        response_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, response_started
            if message["type"] == "http.response.start":
                response_started, status = True, message["status"]
                headers = list(message.get("headers", ()))
                headers += self._headers
                if not any(name == b"cache-control" for name, _ in headers):
                    # browsers must revalidate the dashboard's files by ETag: files of two versions do not fit together
                    headers.append((b"cache-control", b"no-store" if guarded else b"no-cache"))
                message = {**message, "headers": headers}
            await send(message)

        token: Token | None = None
        entered: ConcurrencyLimit | None = None
        try:
            token = self._check(scope, guarded)
            if path not in ALIVE:
                limit = self._streams if path == STREAM else self._requests
                if problem := limit.enter(None if token is None else token.id):
                    raise problem
                entered = limit
                if limit is self._streams:
                    self._metrics.streams.inc()
            scope.setdefault("state", {})["token"] = token
            await self._app(scope, self._limited(scope, receive), send_with_headers)
        except ClientDisconnect:
            status = 400  # for metrics and log: the client is gone
        except problems.ProblemError as error:
            await error.response()(scope, receive, send_with_headers)
        except Exception as error:
            # without the error's message, which may contain user ids
            log.error("unexpected %s", type(error).__name__, extra={"detail": redacted_traceback(error)})
            if response_started:
                raise
            await problems.problem_response(500, "something went wrong here: the log tells more")(
                scope, receive, send_with_headers
            )
        finally:
            if entered is not None:
                entered.leave(None if token is None else token.id)
                if entered is self._streams:
                    self._metrics.streams.dec()
            took = time.perf_counter() - start
            route = _route(scope, path, guarded)
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.request(method, route, status, took, stream=entered is self._streams)
            if access.isEnabledFor(logging.INFO):
                fields = {"method": scope["method"][:16], "route": route, "status": status, "ms": round(1e3 * took, 2)}
                access.info("request", extra=fields | {"token": None if token is None else token.id})

    def _check(self, scope: Scope, guarded: bool) -> Token | None:
        """Return the token of a request, None where none is needed; raise a `ProblemError` to refuse the request."""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES:
            raise problems.ProblemError(431, f"the headers have more than {HEADER_BYTES:,} bytes")
        self._check_host(scope)
        most = self._most_body_bytes(scope)
        length = _header(scope, b"content-length")
        if length is not None and (not length.isdigit() or len(length) > 18 or int(length) > most):
            raise problems.ProblemError(413, f"a request has at most {most:,} bytes", {"Connection": "close"})
        if not guarded:
            return None
        _check_doubled(scope)
        address = (scope.get("client") or ("?",))[0]
        scheme, _, secret = (_header(scope, b"authorization") or b"").partition(b" ")
        try:
            token = self._tokens.find(secret.strip().decode("latin-1")) if scheme.lower() == b"bearer" else None
        except HomeError as error:  # a command may hold the file of the tokens for long
            log.error(
                "the tokens cannot be read: %s", redacted_message(error), extra={"detail": redacted_traceback(error)}
            )
            detail = "no token can be looked up now: the log tells more"
            raise problems.ProblemError(503, detail, {"Retry-After": "5"}) from None
        if token is None:
            # a valid token is not limited by failed attempts from its address: behind a proxy all clients share one
            if wait := self._failed_attempts.take(address):
                limit = f"at most {self._failed_attempts.per_s:g} a second (setting `attempts`)"
                detail = f"too many failed attempts from this address: {limit}"
                raise problems.ProblemError(429, detail, {"Retry-After": str(wait)})
            raise problems.ProblemError(401, "send Authorization: Bearer SECRET", {"WWW-Authenticate": "Bearer"})
        wait = self._rates.take(token.id)
        if wait:
            detail = f"too many requests with this token: at most {self._rates.per_s:g} a second (setting `rate`)"
            raise problems.ProblemError(429, detail, {"Retry-After": str(wait)})
        return token

    def _check_host(self, scope: Scope) -> None:
        """Refuse a request without a Host header, with several, or with one that is not allowed."""
        hosts = [value.decode("latin-1").strip() for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1:
            raise problems.ProblemError(400, "a request has one Host header, not several", {"Connection": "close"})
        if not hosts or not hosts[0]:
            if scope.get("http_version") == "1.0" and self._hosts is None:
                return  # HTTP/1.0 does not ask for one
            raise problems.ProblemError(400, "a request has a Host header", {"Connection": "close"})
        if self._hosts is not None and host_name(hosts[0]) not in self._hosts:
            raise problems.ProblemError(
                400, "this service does not answer to that Host: the setting `hosts` names some"
            )

    def _most_body_bytes(self, scope: Scope) -> int:
        return self._body_bytes if scope["path"].endswith(LARGE) else min(self._body_bytes, SMALL_BODY_BYTES)

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` that fails when the body is too long or arrives too slowly."""
        most, received, start, complete = self._most_body_bytes(scope), 0, time.monotonic(), False

        async def receive_limited() -> Message:
            nonlocal received, complete
            if complete:  # the next message says that the client went away, however late
                return await receive()
            allowed_s = self._slow_s + received / BODY_BYTES_S
            try:
                async with asyncio.timeout(start + allowed_s - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise TooSlowError(allowed_s) from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > most:
                raise TooLargeError(most)
            return message

        return receive_limited


def _check_doubled(scope: Scope) -> None:
    """Refuse a request that names a header or a parameter of its query twice: one of them would be ignored."""
    names = [name for name, _ in scope["headers"]]
    for name in ONCE:
        if names.count(name) > 1:
            text = name.decode().title()
            raise problems.ProblemError(400, f"a request has one {text} header, not several", {"Connection": "close"})
    seen: set[str] = set()
    for parameter, _ in parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True):
        if parameter in seen:
            raise problems.ProblemError(400, f"the query has the parameter {parameter[:40]!r} twice")
        seen.add(parameter)
    if "user" in seen and unquote((scope.get("raw_path") or b"").decode("latin-1")).startswith(USERS):
        raise problems.ProblemError(400, "the path names the user already: leave out the parameter 'user'")


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for header, value in scope["headers"] if header == name), None)


def _route(scope: Scope, path: str, guarded: bool) -> str:
    """Return a route's pattern, never the path itself, which may contain a user id."""
    routes = [scope["route"]] if "route" in scope else getattr(scope.get("app"), "routes", ())
    for route in routes:  # a request that was refused before it reached a route is counted at the one that it asked for
        pattern = getattr(route, "path_format", None)
        if isinstance(pattern, str) and pattern and ("route" in scope or route.matches(scope)[0] is not Match.NONE):
            return pattern
    return "unknown" if guarded else "static"
