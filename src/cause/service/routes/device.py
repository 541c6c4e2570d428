"""Routes of the device: status, rounds, shards, sub-models, repairs, energy, baselines, trace."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from cause.device.repairing import start_over
from cause.lab.home_trace import history as trace_of
from cause.service import paged_views, views
from cause.service import schemas as s
from cause.service.access import require_scope
from cause.service.filtered_pages import Since, Until, moment
from cause.service.history_view import history
from cause.service.input_schemas import close_round_schema, start_repair_schema
from cause.service.inputs import parse_close_round, parse_start_repair
from cause.service.problems import ProblemError, documented, text
from cause.service.responses import json_response
from cause.service.routes.pages import After, Before, Limit, MaybeLimit
from cause.service.routes.users import REPLAYED, Key
from cause.service.service import Service
from cause.service.tokens import Token

Inspector = Annotated[Token, require_scope("operator", "auditor")]
Number = Annotated[int, Path(ge=0, le=2**31)]


def router(service: Service) -> APIRouter:
    """Return the routes of the device."""
    routes = APIRouter(tags=["device"])

    @routes.get("/v1/status", response_model=s.Status, responses=documented(422))
    def status(request: Request, token: Inspector, limit: MaybeLimit = None) -> Response:
        """The device at a glance; with `limit`, of its growing lists only the newest entries."""
        return json_response(request, views.status(service, limit, names="operator" in token.scopes))

    @routes.get("/v1/exports", response_model=s.Exports, responses=documented(422))
    def exports(request: Request, token: Inspector, before: Before = None, limit: Limit = 50) -> Response:
        """Copies of the ensemble that left the device, newest first."""
        return json_response(request, paged_views.exports(service, before, limit))

    @routes.get("/v1/rounds", response_model=s.Rounds, responses=documented(422))
    def rounds(request: Request, token: Inspector, before: Before = None, limit: Limit = 50) -> Response:
        """Rounds, newest first."""
        return json_response(request, views.rounds(service, before, limit))

    @routes.post(
        "/v1/rounds",
        status_code=202,
        response_model=s.Round,
        responses=documented(408, 409, 422),
        openapi_extra={"requestBody": close_round_schema()},
    )
    async def close_round(
        request: Request, token: Annotated[Token, require_scope("operator")], idempotency_key: Key = None
    ) -> Response:
        """Make a round of all that is staged. It is durable when this answers; training follows.

        When nothing is staged it is refused, unless `empty` is true: an empty round counts, too.
        """

        def work(body: bytes) -> Response:
            empty = parse_close_round(body).empty
            call = service.call_id(token.id, "round", idempotency_key, b"empty" if empty else b"")
            earlier = None if call is None else service.home.inbox.result_of_call(call)
            number = None if earlier is None else earlier.round
            if number is None:
                number = service.trainer.close_round(call, empty=empty).round
            shown = views.round_(service, number)
            assert shown is not None
            return json_response(request, shown, 202, None if earlier is None else REPLAYED)

        return await service.body_reader.read(request, work)

    @routes.get("/v1/rounds/{round}", response_model=s.Round, responses=documented(404, 422))
    def round_(round: Number, request: Request, token: Inspector) -> Response:  # noqa: A002
        """One round."""
        shown = views.round_(service, round)
        if shown is None:
            raise ProblemError(404, f"there is no round {round}")
        return json_response(request, shown)

    @routes.get("/v1/shards", response_model=s.Shards, responses=documented(422))
    def shards(request: Request, token: Inspector, after: After = None, limit: MaybeLimit = None) -> Response:
        """All shards with their segments, or a page of them."""
        return json_response(request, views.shards(service, after, limit))

    @routes.get("/v1/shards/{shard}", response_model=s.Shard, responses=documented(404, 422))
    def shard(shard: Number, request: Request, token: Inspector) -> Response:
        """One shard."""
        shown = views.shard(service, shard)
        if shown is None:
            raise ProblemError(404, f"shard {shard} has no samples")
        return json_response(request, shown)

    @routes.get("/v1/sub-models", response_model=s.SubModels, responses=documented(422))
    def sub_models(request: Request, token: Inspector, after: After = None, limit: MaybeLimit = None) -> Response:
        """The stored sub-models by slot, all or a page of them."""
        return json_response(request, views.sub_models(service, after, limit))

    @routes.post(
        "/v1/repairs",
        status_code=202,
        response_model=s.Repairs,
        responses=documented(408, 422),
        openapi_extra={"requestBody": start_repair_schema()},
    )
    async def repair(request: Request, token: Annotated[Token, require_scope("operator")]) -> Response:
        """Repair now, whatever the schedule says; with `from_scratch`, drop all sub-models of these shards first."""

        def work(body: bytes) -> Response:
            shards = parse_start_repair(body).from_scratch
            if shards:
                start_over(service.device, shards)
            waiting = service.device.waiting()
            if waiting:
                service.trainer.wake(repair=True)
            answer = s.Repairs(state="started" if waiting else "nothing waits", waiting=waiting)
            return json_response(request, answer, 202)

        return await service.body_reader.read(request, work)

    @routes.get("/v1/history", response_model=s.History, responses=documented(422))
    def history_(
        request: Request,
        token: Inspector,
        since: Since = None,
        until: Until = None,
        points: Annotated[int, Query(ge=2, le=1000, description="The most entries of each list")] = 200,
    ) -> Response:
        """The device over time: accuracy with its voters, erasures, retrained samples, energy, memory."""
        return json_response(request, history(service, moment(since, "since"), moment(until, "until"), points))

    @routes.get("/v1/energy", response_model=s.Energy, responses=documented())
    def energy(request: Request, token: Inspector) -> Response:
        """The energy meter of this machine, and the estimated cost of the repair."""
        return json_response(request, views.energy(service))

    @routes.get("/v1/baselines", response_model=s.Baselines, responses=documented())
    def baselines(request: Request, token: Inspector) -> Response:
        """The paper's systems on this device's history; ask again while it computes."""
        return json_response(request, service.comparison.current())

    @routes.get("/v1/trace", response_class=Response, responses=documented() | text("application/x-ndjson", "A trace"))
    def trace_(token: Inspector) -> Response:
        """The history as a trace: pseudonyms, counts, labels, shards."""
        lines = "".join(f"{line}\n" for line in trace_of(service.home).lines())
        return Response(lines, media_type="application/x-ndjson")

    return routes
