"""The route that erases samples of several users with one request."""

from secrets import token_hex
from typing import Annotated

from fastapi import APIRouter, Request, Response

from cause.engine.requests import Request as ForgetRequest
from cause.service import schemas as s
from cause.service import views
from cause.service.access import require_scope
from cause.service.inputs import JSON, MOST_PAIRS, parse_json
from cause.service.problems import ProblemError, documented
from cause.service.responses import json_response
from cause.service.routes.users import NOTHING_HELD, REPLAYED, Key, forget_request
from cause.service.service import Service
from cause.service.tokens import Token

BODY = {"required": True, "content": {JSON: {"schema": {"$ref": "#/components/schemas/Erasures"}}}}


def router(service: Service) -> APIRouter:
    """Return the route of erasures of several users."""
    routes = APIRouter(tags=["users"])

    @routes.post(
        "/v1/erasures",
        status_code=202,
        response_model=s.UserRequests,
        responses=documented(408, 409, 422),
        openapi_extra={"requestBody": BODY},
    )
    async def erase_several(
        request: Request, token: Annotated[Token, require_scope("operator")], idempotency_key: Key = None
    ) -> Response:
        """Forget samples of several users: all of these erasures are accepted, or none.

        Each is a request of its own with its own receipts, which say nothing of the others. When this answers all of
        them are in effect.
        """

        def work(body: bytes) -> Response:
            if body.count(b"[") + body.count(b"{") > MOST_PAIRS + s.MOST_ERASURES:  # checked before parsing
                raise ProblemError(422, f"at most {MOST_PAIRS:,} samples are named at once")
            erasures = parse_json(s.Erasures, body).erasures
            names = [service.device.name_of(erasure.user) for erasure in erasures]
            if len(set(names)) < len(names):
                twice = next(at for at, name in enumerate(names) if name in names[:at])
                raise ProblemError(422, f"a user is named once: erasure {twice} is of a user who was named before")
            # without a key an id is drawn, so that a second request is served as one of its own
            call = service.call_id(token.id, "erasures", idempotency_key, body, bound=True) or token_hex(16)
            ids = [service.part_id(call, name) for name in names]
            to_forget = [forget_request(name, erasure) for name, erasure in zip(names, erasures, strict=True)]
            new = service.erasures.erase_all(to_forget, ids)
            service.trainer.erased()
            shown = [_shown(service, erasure, id_) for erasure, id_ in zip(to_forget, ids, strict=True)]
            return json_response(request, s.UserRequests(requests=shown), 202, None if new else REPLAYED)

        return await service.body_reader.read(request, work)

    return routes


def _shown(service: Service, request: ForgetRequest, id_: str) -> s.UserRequest:
    accepted = views.request(service, id_)
    assert accepted is not None
    note = NOTHING_HELD if request.everything and accepted.samples == 0 else None
    return s.UserRequest(**accepted.model_dump(exclude={"note"}), note=note, user=request.user)
