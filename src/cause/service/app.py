"""The application: routes, errors, the schema, static files."""

import asyncio
import logging
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.staticfiles import StaticFiles

from cause.common.version import __version__
from cause.errors import BudgetError, CauseError, EmptyRoundError, InputError, NoVotersError, RequestError
from cause.service import problems
from cause.service.middleware import ServiceMiddleware
from cause.service.openapi import PUBLIC, openapi_schema
from cause.service.redact import redacted_message, redacted_traceback
from cause.service.routes import bulk_erasures, device, evidence, meta, predictions, quarantine, tokens, users
from cause.service.service import Service

log = logging.getLogger("cause.serve")
STATIC = Path(__file__).parent / "static"
_CHECKOUT = Path(__file__).parents[3] / "docs"
DOCS = _CHECKOUT if (_CHECKOUT / "service.md").is_file() else Path(sysconfig.get_path("data"), "share/doc/cause")
"""The documentation: in a checkout where it is written, otherwise where a package puts it."""
UNTRACED: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False}
"""Telemetry is off: spans would contain paths, and paths contain user ids."""
API_PATHS = (*PUBLIC, "/metrics", "/openapi.json", "/v1")


def make_app(service: Service) -> FastAPI:
    """Return the application that serves one device."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start(asyncio.get_running_loop())
        yield
        await run_in_threadpool(service.close)

    app = FastAPI(
        title="CAUSE",
        version=__version__,
        summary="Exact machine unlearning on a device",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=UNTRACED,
    )
    for part in (users, bulk_erasures, predictions, device, quarantine, evidence, tokens, meta):
        app.router.routes.extend(part.router(service).routes)
    if DOCS.is_dir():
        app.router.routes.append(Mount("/docs", Documents(directory=DOCS), name="docs"))
    app.router.routes.append(Pages("/", StaticFiles(directory=STATIC, html=True), name="static"))
    _add_exception_handlers(app)
    app.openapi = lambda: openapi_schema(app)  # type: ignore[method-assign]
    app.add_middleware(ServiceMiddleware, service=service)
    return app


class Documents(StaticFiles):
    """The documentation of this version, as the text that it is written in: browsers show it without a network."""

    def file_response(self, full_path: Any, *args: Any, **more: Any) -> Response:
        """Return a file; Markdown is labelled as plain text, since browsers would save it otherwise."""
        response = super().file_response(full_path, *args, **more)
        if str(full_path).endswith(".md") and "content-type" in response.headers:
            response.headers["content-type"] = "text/plain; charset=utf-8"
        return response


class Pages(Mount):
    """Static files, on every path that is not one of the API's."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Match no path of the API: an unknown one is answered as a problem, not as a missing file."""
        path = scope.get("path", "")
        if path in API_PATHS or path.startswith("/v1/"):
            return Match.NONE, {}
        return super().matches(scope)


def _methods(app: FastAPI, scope: Any) -> str:
    """Return the methods that a path allows, for the header Allow."""
    methods: set[str] = set()
    for route in app.routes:
        if route.matches(scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or {"GET", "HEAD"}
    return ", ".join(sorted(methods))


def _add_exception_handlers(app: FastAPI) -> None:
    @app.exception_handler(problems.ProblemError)
    async def _(request: Request, error: problems.ProblemError) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> Response:
        errors = [{"where": ".".join(map(str, item["loc"])), "message": item["msg"]} for item in error.errors()[:20]]
        return problems.problem_response(422, "the request is not as the schema says", errors=errors)

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        detail = {404: "there is nothing here", 405: "not with this method"}.get(error.status_code, str(error.detail))
        allow = {"Allow": _methods(app, request.scope)} if error.status_code == 405 else {}
        return problems.problem_response(error.status_code, detail, dict(error.headers or {}) | allow)

    @app.exception_handler(CauseError)
    async def _(request: Request, error: CauseError) -> Response:
        if isinstance(error, BudgetError):
            return problems.problem_response(409, str(error), kind=problems.STORAGE_FULL)
        if isinstance(error, RequestError | NoVotersError | EmptyRoundError):
            return problems.problem_response(409, str(error))
        if isinstance(error, InputError):
            return problems.problem_response(422, str(error))
        log.error("a request failed: %s", redacted_message(error), extra={"detail": redacted_traceback(error)})
        return problems.problem_response(503, "the device cannot do this now: its log tells more", {"Retry-After": "5"})
