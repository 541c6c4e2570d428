"""Routes of the evidence: requests, receipts, the log, verifications."""

import base64
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from cause.device.log import consistency_proof
from cause.service import schemas as s
from cause.service import views
from cause.service.access import ANY, inspects, require_scope
from cause.service.filtered_pages import IdPrefix, Since, Until, moment
from cause.service.problems import ProblemError, documented
from cause.service.responses import json_response
from cause.service.routes.pages import Before, Limit
from cause.service.service import Service
from cause.service.tokens import Token

Inspector = Annotated[Token, require_scope("operator", "auditor")]
AnyToken = Annotated[Token, require_scope(*ANY)]
Witness = Annotated[Token, require_scope("operator", "auditor", "user")]
RequestId = Annotated[str, Path(pattern=r"^[0-9a-f]{16,64}$", examples=["6f1e1cf83eab4c0aa0ffb5d0f9e8a4f5"])]
Number = Annotated[int, Path(ge=0, le=2**53)]
RequestState = Literal["accepted", "in_effect", "repaired", "open", "overdue"]


def router(service: Service) -> APIRouter:
    """Return the routes of requests, receipts, the log and verifications."""
    routes = APIRouter(tags=["evidence"])
    receipt_log = service.home.receipts

    @routes.get("/v1/requests", response_model=s.Requests, responses=documented(422))
    def requests(
        request: Request,
        token: Inspector,
        state: Annotated[RequestState | None, Query(description="`open`: not repaired; `overdue`: nor in time")] = None,
        id: IdPrefix = None,  # noqa: A002
        since: Since = None,
        until: Until = None,
        before: Before = None,
        limit: Limit = 50,
    ) -> Response:
        """Requests, newest first: when they came, took effect and were repaired, and until when that must be.

        `since` and `until` are about when they were received.
        """
        span = moment(since, "since"), moment(until, "until")
        return json_response(request, views.requests(service, state, before, limit, id_=id, span=span))

    @routes.get("/v1/requests/{id}", response_model=s.Request | s.OwnRequest, responses=documented(404, 422))
    def one(id: RequestId, request: Request, token: AnyToken) -> Response:  # noqa: A002
        """One request: any token may read it that knows its id."""
        shown = views.request(service, id)
        if shown is None:
            raise ProblemError(404, f"there is no request {id!r}")
        return json_response(request, views.request_for(token, shown))

    @routes.get("/v1/requests/{id}/receipts", response_model=s.Bundles, responses=documented(404, 422))
    def bundles(id: RequestId, request: Request, token: AnyToken) -> Response:  # noqa: A002
        """A request's receipts, each with its proof."""
        if views.request(service, id) is None:
            raise ProblemError(404, f"there is no request {id!r}")
        numbers, own = receipt_log.numbers(id), not inspects(token)
        return json_response(request, s.Bundles(receipts=[_bundle(service, number, own=own) for number in numbers]))

    @routes.get("/v1/receipts", response_model=s.Receipts, responses=documented(422))
    def receipts(
        request: Request,
        token: Inspector,
        kind: Literal["effect", "repair", "restore"] | None = None,
        id: IdPrefix = None,  # noqa: A002
        since: Since = None,
        until: Until = None,
        before: Before = None,
        limit: Limit = 50,
    ) -> Response:
        """Receipts, newest first. `since` and `until` are about when the erasure took effect or was repaired."""
        span = moment(since, "since"), moment(until, "until")
        return json_response(request, views.receipts(service, before, limit, kind=kind, id_=id, span=span))

    @routes.get("/v1/receipts/{number}", response_model=s.Bundle, responses=documented(404, 422))
    def receipt(number: Number, request: Request, token: Inspector) -> Response:
        """A receipt with its proof."""
        return json_response(request, _bundle(service, number))

    @routes.post(
        "/v1/receipts/{number}/verification",
        status_code=202,
        response_model=s.Verification,
        responses=documented(404, 409, 422),
    )
    def verify(number: Number, request: Request, token: Inspector) -> Response:
        """Check a receipt by replay, in the background."""
        _bundle(service, number)
        return _start_verification(request, number)

    @routes.post("/v1/verifications", status_code=202, response_model=s.Verification, responses=documented(409))
    def verify_all(request: Request, token: Inspector) -> Response:
        """Check every stored sub-model by replay, in the background."""
        return _start_verification(request, None)

    def _start_verification(request: Request, number: int | None) -> Response:
        started = service.verifications.start(number)
        if started is None:
            raise ProblemError(409, "too many verifications wait: ask again later")
        return json_response(request, started, 202, {"Location": f"/v1/verifications/{started.id}"})

    @routes.get("/v1/verifications/{id}", response_model=s.Verification, responses=documented(404, 422))
    def verification(id: RequestId, request: Request, token: Inspector) -> Response:  # noqa: A002
        """The state and the result of a verification."""
        shown = service.verifications.get(id)
        if shown is None:
            raise ProblemError(404, f"there is no verification {id!r}: ask for it anew")
        return json_response(request, shown)

    @routes.get("/v1/log", response_model=s.Log, responses=documented())
    def log(request: Request, token: Witness) -> Response:
        """The log's signed head, and the key to check it with."""
        with service.device.lock:
            shown = s.Log(
                verifier=str(receipt_log.verifier), size=receipt_log.size, checkpoint=receipt_log.checkpoint().decode()
            )
        return json_response(request, shown)

    @routes.get("/v1/log/consistency", response_model=s.Consistency, responses=documented(409, 422))
    def consistency(
        request: Request, token: Witness, since: Annotated[int, Query(ge=0, le=2**53, description="An earlier size")]
    ) -> Response:
        """The proof that the log has only grown since it had so many entries."""
        with service.device.lock:
            size = receipt_log.size
            if since > size:
                raise ProblemError(409, f"the log has {size} entries, fewer than {since}")
            proof = [base64.b64encode(node).decode() for node in consistency_proof(receipt_log, since, size)]
        return json_response(request, s.Consistency(since=since, size=size, proof=proof))

    return routes


def _bundle(service: Service, number: int, *, own: bool = False) -> s.Bundle:
    """Return a receipt with its proof; with `own`, in the form that says nothing of other users."""
    with service.device.lock:
        if number >= service.home.receipts.size:
            raise ProblemError(404, f"there is no receipt {number}")
        return s.Bundle(**service.home.receipts.bundle(number, own=own).json())
