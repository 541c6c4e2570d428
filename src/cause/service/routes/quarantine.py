"""What is in quarantine, and dropping it."""

from secrets import token_hex
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from cause.engine.quarantine import dropping
from cause.errors import RequestError
from cause.service import schemas as s
from cause.service import views
from cause.service.access import allowed
from cause.service.problems import ProblemError, documented
from cause.service.responses import reply
from cause.service.service import Service
from cause.service.tokens import Token

Looking = Annotated[Token, allowed("operator", "auditor")]
Number = Annotated[int, Path(ge=0, le=2**53)]


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["device"])

    @routes.get("/v1/quarantine", response_model=s.Quarantine, responses=documented())
    def quarantine(request: Request, token: Looking) -> Response:
        """Samples that no training can bear; operators are told whose they are."""
        return reply(request, views.quarantine(service, names="operator" in token.scopes))

    @routes.post(
        "/v1/quarantine/{upload}/drop", status_code=202, response_model=s.Request, responses=documented(404, 409, 422)
    )
    def drop(upload: Number, request: Request, token: Annotated[Token, allowed("operator")]) -> Response:
        """Forget what is in quarantine of an upload: an erasure with a receipt, as any other."""
        device, id_ = service.device, token_hex(16)
        with device.lock:  # of what is forgotten before the erasure's turn comes, it answers with 409
            try:
                asked = dropping(device.ledger, upload)
            except RequestError as error:
                raise ProblemError(404, str(error)) from None
        service.erasures.erase(asked, id_)
        service.trainer.erased()
        told = views.request(service, id_)
        assert told is not None
        return reply(request, told, 202, {"Location": f"/v1/requests/{id_}"})

    return routes
