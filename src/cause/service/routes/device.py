"""The device itself: status, rounds, shards, repairs, energy, comparisons."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from cause.lab.home_trace import history
from cause.service import schemas as s
from cause.service import views
from cause.service.access import allowed
from cause.service.inputs import close_round_of, close_round_schema
from cause.service.problems import ProblemError, documented, text
from cause.service.responses import reply
from cause.service.routes.pages import Before, Limit
from cause.service.routes.users import REPLAYED, Key
from cause.service.service import Service
from cause.service.tokens import Token

Looking = Annotated[Token, allowed("operator", "auditor")]
Number = Annotated[int, Path(ge=0, le=2**31)]


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["device"])

    @routes.get("/v1/status", response_model=s.Status, responses=documented())
    def status(request: Request, token: Looking) -> Response:
        """The device at a glance."""
        return reply(request, views.status(service, names="operator" in token.scopes))

    @routes.get("/v1/rounds", response_model=s.Rounds, responses=documented(422))
    def rounds(request: Request, token: Looking, before: Before = None, limit: Limit = 50) -> Response:
        """Rounds, newest first."""
        return reply(request, views.rounds(service, before, limit))

    @routes.post(
        "/v1/rounds",
        status_code=202,
        response_model=s.Round,
        responses=documented(408, 409, 422),
        openapi_extra={"requestBody": close_round_schema()},
    )
    async def close_round(
        request: Request, token: Annotated[Token, allowed("operator")], idempotency_key: Key = None
    ) -> Response:
        """Make a round of all that is staged. It is durable when this answers; training follows.

        When nothing is staged it is refused, unless `empty` is true: an empty round counts, too.
        """

        def work(body: bytes) -> Response:
            empty = close_round_of(body).empty
            call = service.call_id(token.id, "round", idempotency_key, b"empty" if empty else b"")
            known = None if call is None else service.home.inbox.called(call)
            number = None if known is None else known.round
            if number is None:
                number = service.trainer.close_round(call, empty=empty).round
            told = views.round_(service, number)
            assert told is not None
            return reply(request, told, 202, None if known is None else REPLAYED)

        return await service.bodies.read(request, work)

    @routes.get("/v1/rounds/{round}", response_model=s.Round, responses=documented(404, 422))
    def round_(round: Number, request: Request, token: Looking) -> Response:  # noqa: A002
        """One round."""
        told = views.round_(service, round)
        if told is None:
            raise ProblemError(404, f"there is no round {round}")
        return reply(request, told)

    @routes.get("/v1/shards", response_model=s.Shards, responses=documented())
    def shards(request: Request, token: Looking) -> Response:
        """All shards with their segments."""
        return reply(request, s.Shards(shards=views.shards(service)))

    @routes.get("/v1/shards/{shard}", response_model=s.Shard, responses=documented(404, 422))
    def shard(shard: Number, request: Request, token: Looking) -> Response:
        """One shard."""
        for each in views.shards(service):
            if each.shard == shard:
                return reply(request, each)
        raise ProblemError(404, f"shard {shard} has no samples")

    @routes.get("/v1/sub-models", response_model=s.SubModels, responses=documented())
    def sub_models(request: Request, token: Looking) -> Response:
        """What is stored."""
        return reply(request, views.sub_models(service))

    @routes.post("/v1/repairs", status_code=202, response_model=s.Repairs, responses=documented())
    def repair(request: Request, token: Annotated[Token, allowed("operator")]) -> Response:
        """Repair now, whatever the schedule says."""
        waiting = service.device.waiting()
        if waiting:
            service.trainer.wake(repair=True)
        return reply(request, s.Repairs(state="started" if waiting else "nothing waits", waiting=waiting), 202)

    @routes.get("/v1/energy", response_model=s.Energy, responses=documented())
    def energy(request: Request, token: Looking) -> Response:
        """Which meter there is, and what the repair will take."""
        return reply(request, views.energy(service))

    @routes.get("/v1/baselines", response_model=s.Baselines, responses=documented())
    def baselines(request: Request, token: Looking) -> Response:
        """The paper's systems on this device's history; ask again while it computes."""
        return reply(request, service.comparison.now())

    @routes.get("/v1/trace", response_class=Response, responses=documented() | text("application/x-ndjson", "A trace"))
    def trace_(token: Looking) -> Response:
        """The history as a trace: pseudonyms, counts, labels, shards."""
        lines = "".join(f"{line}\n" for line in history(service.home).lines())
        return Response(lines, media_type="application/x-ndjson")

    return routes
