"""The application: routes, errors, the schema, static files."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.staticfiles import StaticFiles

from cause.common.version import __version__
from cause.errors import BudgetError, CauseError, EmptyRoundError, InputError, RequestError
from cause.service import problems
from cause.service.middleware import Gate
from cause.service.predictor_cache import NobodyVotesError
from cause.service.redact import kind_of, where
from cause.service.routes import device, evidence, meta, predictions, quarantine, users
from cause.service.schemas import Problem
from cause.service.service import Service

log = logging.getLogger("cause.serve")
STATIC = Path(__file__).parent / "static"
PUBLIC = ("/healthz", "/readyz")
UNTRACED: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False}
"""Spans would name paths, and users' names are in there."""
TAKEN = (*PUBLIC, "/metrics", "/openapi.json", "/v1")


def make_app(service: Service) -> FastAPI:
    """An application for one device."""

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
    for part in (users, predictions, device, quarantine, evidence, meta):
        app.router.routes.extend(part.router(service).routes)
    app.router.routes.append(Pages("/", StaticFiles(directory=STATIC, html=True), name="static"))
    _handle(app)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]
    app.add_middleware(Gate, tokens=service.tokens, metrics=service.metrics, settings=service.settings)
    return app


class Pages(Mount):
    """Static files: whatever path is nobody else's."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        path = scope.get("path", "")
        if path in TAKEN or path.startswith("/v1/"):
            return Match.NONE, {}
        return super().matches(scope)


def _methods(app: FastAPI, scope: Any) -> str:
    """What a path can be asked with."""
    found: set[str] = set()
    for route in app.routes:
        if route.matches(scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or {"GET", "HEAD"}
    return ", ".join(sorted(found))


def _handle(app: FastAPI) -> None:
    @app.exception_handler(problems.ProblemError)
    async def _(request: Request, error: problems.ProblemError) -> Response:
        return problems.answer(error.status, error.detail, error.headers, error.errors)

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> Response:
        wrong = [{"where": ".".join(map(str, each["loc"])), "message": each["msg"]} for each in error.errors()[:20]]
        return problems.answer(422, "the request is not as the schema says", errors=wrong)

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        detail = {404: "there is nothing here", 405: "not with this method"}.get(error.status_code, str(error.detail))
        allow = {"Allow": _methods(app, request.scope)} if error.status_code == 405 else {}
        return problems.answer(error.status_code, detail, dict(error.headers or {}) | allow)

    @app.exception_handler(CauseError)
    async def _(request: Request, error: CauseError) -> Response:
        if isinstance(error, BudgetError):
            return problems.answer(409, str(error), kind=problems.STORAGE_FULL)
        if isinstance(error, RequestError | NobodyVotesError | EmptyRoundError):
            return problems.answer(409, str(error))
        if isinstance(error, InputError):
            return problems.answer(422, str(error))
        log.error("a request failed: %s", kind_of(error), extra={"detail": where(error)})
        return problems.answer(503, "the device cannot do this now: its log tells more", {"Retry-After": "5"})


def _schema(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        parts = made.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            parts["schemas"].pop(unused, None)
        parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for path, methods in made["paths"].items():
            for operation in methods.values():
                if path not in PUBLIC:
                    operation["security"] = [{"bearer": []}]
                    if "get" in methods and operation is methods["get"] and "200" in operation["responses"]:
                        operation["responses"].setdefault("304", {"description": "The client has it already"})
        app.openapi_schema = made
    return app.openapi_schema
