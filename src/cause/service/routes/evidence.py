"""Requests, receipts, the log, verification."""

import base64
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from cause.device.log import consistency_proof
from cause.service import schemas as s
from cause.service import views
from cause.service.access import ANY, allowed
from cause.service.problems import ProblemError, documented
from cause.service.responses import reply
from cause.service.routes.pages import Before, Limit
from cause.service.service import Service
from cause.service.tokens import Token

Looking = Annotated[Token, allowed("operator", "auditor")]
Knowing = Annotated[Token, allowed(*ANY)]
Witness = Annotated[Token, allowed("operator", "auditor", "user")]
RequestId = Annotated[str, Path(pattern=r"^[0-9a-f]{16,64}$", examples=["6f1e1cf83eab4c0aa0ffb5d0f9e8a4f5"])]
Number = Annotated[int, Path(ge=0, le=2**53)]


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["evidence"])
    kept = service.home.receipts

    @routes.get("/v1/requests", response_model=s.Requests, responses=documented(422))
    def requests(
        request: Request,
        token: Looking,
        state: Literal["accepted", "in_effect", "repaired"] | None = None,
        before: Before = None,
        limit: Limit = 50,
    ) -> Response:
        """Requests, newest first: when they came, took effect and were repaired, and until when that must be."""
        return reply(request, views.requests(service, state, before, limit))

    @routes.get("/v1/requests/{id}", response_model=s.Request, responses=documented(404, 422))
    def one(id: RequestId, request: Request, token: Knowing) -> Response:  # noqa: A002
        """A request, for whoever knows its id."""
        found = views.request(service, id)
        if found is None:
            raise ProblemError(404, "there is no such request")
        return reply(request, found)

    @routes.get("/v1/requests/{id}/receipts", response_model=s.Bundles, responses=documented(404, 422))
    def bundles(id: RequestId, request: Request, token: Knowing) -> Response:  # noqa: A002
        """A request's receipts, each with its proof."""
        if views.request(service, id) is None:
            raise ProblemError(404, "there is no such request")
        return reply(request, s.Bundles(receipts=[_bundle(service, number) for number in kept.numbers(id)]))

    @routes.get("/v1/receipts", response_model=s.Receipts, responses=documented(422))
    def receipts(request: Request, token: Looking, before: Before = None, limit: Limit = 50) -> Response:
        """Receipts, newest first."""
        return reply(request, views.receipts(service, before, limit))

    @routes.get("/v1/receipts/{number}", response_model=s.Bundle, responses=documented(404, 422))
    def receipt(number: Number, request: Request, token: Looking) -> Response:
        """A receipt with its proof."""
        return reply(request, _bundle(service, number))

    @routes.post(
        "/v1/receipts/{number}/verification",
        status_code=202,
        response_model=s.Verification,
        responses=documented(404, 409, 422),
    )
    def verify(number: Number, request: Request, token: Looking) -> Response:
        """Check a receipt by replay, in the background."""
        _bundle(service, number)
        return _asked(request, number)

    @routes.post("/v1/verifications", status_code=202, response_model=s.Verification, responses=documented(409))
    def verify_all(request: Request, token: Looking) -> Response:
        """Check every stored sub-model by replay, in the background."""
        return _asked(request, None)

    def _asked(request: Request, number: int | None) -> Response:
        found = service.verifications.ask(number)
        if found is None:
            raise ProblemError(409, "too many verifications wait: ask again later")
        return reply(request, found, 202, {"Location": f"/v1/verifications/{found.id}"})

    @routes.get("/v1/verifications/{id}", response_model=s.Verification, responses=documented(404, 422))
    def verification(id: RequestId, request: Request, token: Looking) -> Response:  # noqa: A002
        """How far it is, and what it found."""
        found = service.verifications.get(id)
        if found is None:
            raise ProblemError(404, "there is no such verification: ask for it anew")
        return reply(request, found)

    @routes.get("/v1/log", response_model=s.Log, responses=documented())
    def log(request: Request, token: Witness) -> Response:
        """The log's signed head, and the key to check it with."""
        with service.device.lock:
            told = s.Log(verifier=str(kept.verifier), size=kept.size, checkpoint=kept.checkpoint().decode())
        return reply(request, told)

    @routes.get("/v1/log/consistency", response_model=s.Consistency, responses=documented(409, 422))
    def consistency(
        request: Request, token: Witness, since: Annotated[int, Query(ge=0, le=2**53, description="An earlier size")]
    ) -> Response:
        """The proof that the log has only grown since it had so many entries."""
        with service.device.lock:
            size = kept.size
            if since > size:
                raise ProblemError(409, f"the log has {size} entries, fewer than {since}")
            proof = [base64.b64encode(each).decode() for each in consistency_proof(kept, since, size)]
        return reply(request, s.Consistency(since=since, size=size, proof=proof))

    return routes


def _bundle(service: Service, number: int) -> s.Bundle:
    with service.device.lock:
        if number >= service.home.receipts.size:
            raise ProblemError(404, f"there is no receipt {number}")
        return s.Bundle(**service.home.receipts.bundle(number).json())
