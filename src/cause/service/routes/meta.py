"""Routes for health, metrics, events and the caller's token."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.responses import StreamingResponse

from cause.errors import HomeError
from cause.service import schemas as s
from cause.service.access import ANY, require_scope
from cause.service.metrics import CONTENT_TYPE
from cause.service.problems import documented, text
from cause.service.responses import json_response, timestamp
from cause.service.service import Service
from cause.service.tokens import Token

Inspector = Annotated[Token, require_scope("operator", "auditor")]


def router(service: Service) -> APIRouter:
    """Return the routes of health, metrics, events and tokens."""
    routes = APIRouter(tags=["service"])

    @routes.head("/healthz", include_in_schema=False)
    @routes.get("/healthz", response_model=s.Health)
    async def health(request: Request) -> Response:
        """Whether the process answers."""
        return json_response(request, s.Health(status="ok"))

    @routes.head("/readyz", include_in_schema=False)
    @routes.get("/readyz", response_model=s.Health, responses={503: {"model": s.Health, "description": "Not now"}})
    async def ready(request: Request) -> Response:
        """Whether the service takes requests."""
        if service.ready:
            return json_response(request, s.Health(status="ready"))
        return Response(s.Health(status="stopping").model_dump_json(), 503, media_type="application/json")

    @routes.get("/metrics", response_class=Response, responses=documented() | text("text/plain", "Metrics"))
    def metrics(token: Inspector) -> Response:
        """Metrics for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    @routes.get("/v1/token", response_model=s.Token, responses=documented())
    async def token(request: Request, token: Annotated[Token, require_scope(*ANY)]) -> Response:
        """What the caller's token may do."""
        shown = s.Token(
            id=token.id, scopes=sorted(token.scopes), note=token.note, created=timestamp(token.created),
            expires=timestamp(token.expires),
        )  # fmt: skip
        return json_response(request, shown)

    @routes.get(
        "/v1/events",
        response_class=StreamingResponse,
        responses=documented(422) | text("text/event-stream", "A stream"),
    )
    async def events(
        token: Inspector,
        after: Annotated[int | None, Query(ge=0, le=2**53, description="The last event that was seen")] = None,
        last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,15}$")] = None,
    ) -> StreamingResponse:
        """A stream of events: rounds, trainings, erasures, sub-models."""
        last_seen = after if last_event_id is None else int(last_event_id)
        hello = {"round": service.device.ledger.round}

        def allowed() -> bool:
            try:
                return service.tokens.is_valid(token)
            except HomeError:  # the tokens cannot be read: the client comes back and is answered with 503
                return False

        stream = service.events.stream(last_seen, hello, allowed)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    return routes
