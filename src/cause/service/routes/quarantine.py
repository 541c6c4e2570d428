"""Routes of the quarantine: listing it, and dropping an upload from it."""

from secrets import token_hex
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from cause.engine.quarantine import dropping
from cause.errors import RequestError
from cause.service import paged_views, views
from cause.service import schemas as s
from cause.service.access import require_scope
from cause.service.problems import ProblemError, documented
from cause.service.responses import json_response
from cause.service.routes.pages import After, MaybeLimit
from cause.service.service import Service
from cause.service.tokens import Token

Inspector = Annotated[Token, require_scope("operator", "auditor")]
Number = Annotated[int, Path(ge=0, le=2**53)]


def router(service: Service) -> APIRouter:
    """Return the routes of the quarantine."""
    routes = APIRouter(tags=["device"])

    @routes.get("/v1/quarantine", response_model=s.Quarantine, responses=documented(422))
    def quarantine(request: Request, token: Inspector, after: After = None, limit: MaybeLimit = None) -> Response:
        """Samples that make trainings fail, by upload, all or a page of them; operators also see the users."""
        return json_response(request, paged_views.quarantine(service, after, limit, names="operator" in token.scopes))

    @routes.post(
        "/v1/quarantine/{upload}/drop", status_code=202, response_model=s.Request, responses=documented(404, 409, 422)
    )
    def drop(upload: Number, request: Request, token: Annotated[Token, require_scope("operator")]) -> Response:
        """Forget the quarantined samples of an upload: an erasure with a receipt, like any other."""
        device, id_ = service.device, token_hex(16)
        with device.lock:  # if the samples are forgotten before the erasure's turn comes, it answers 409
            try:
                to_forget = dropping(device.ledger, upload)
            except RequestError as error:
                raise ProblemError(404, str(error)) from None
        service.erasures.erase(to_forget, id_)
        service.trainer.erased()
        shown = views.request(service, id_)
        assert shown is not None
        return json_response(request, shown, 202, {"Location": f"/v1/requests/{id_}"})

    return routes
