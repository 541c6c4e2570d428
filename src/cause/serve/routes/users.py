"""A user's own: uploads, what is held, erasures."""

from secrets import token_hex
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Header, Query, Request, Response
from numpy.typing import NDArray

from cause.errors import ArrivalError, InputError
from cause.home.inbox import Called
from cause.requests import Request as Asked
from cause.serve import schemas as s
from cause.serve import views
from cause.serve.access import UserId, for_user
from cause.serve.inputs import erasure_of, erasure_schema, schema
from cause.serve.limits import Rate
from cause.serve.problems import ProblemError, documented
from cause.serve.service import Service
from cause.serve.shown import reply
from cause.serve.tokens import Token
from cause.serve.unnamed import kind_of
from cause.vault.secrets_in_memory import wipe, wiping
from cause.zeroize import wipe_arrays

Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=128, pattern=r"^[\x20-\x7e]+$")]
REPLAYED = {"Idempotent-Replayed": "true"}


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["users"])
    upload = for_user(service.tokens, "ingest", "operator")
    own = for_user(service.tokens, "operator")
    often = Rate(service.settings.erasures / 3600, service.settings.erasures)

    @routes.post(
        "/v1/users/{user}/samples",
        status_code=201,
        response_model=s.Upload,
        responses=documented(408, 409, 415, 422),
        openapi_extra={"requestBody": schema(service.reader.form, labels=True)},
    )
    async def upload_samples(
        user: UserId,
        request: Request,
        token: Annotated[Token, upload],
        label: Annotated[int | None, Query(ge=0, le=service.device.classes - 1, description="Of a picture")] = None,
        idempotency_key: Key = None,
    ) -> Response:
        """Stage samples for the next round: sealed and durable when this answers."""
        kind = request.headers.get("content-type", "")

        def work(body: bytes) -> tuple[s.Upload, bool]:
            with wiping(body):  # nobody else holds it, and small ones would stay in memory
                return stage(body)

        def stage(body: bytes) -> tuple[s.Upload, bool]:
            x, y = service.reader.labelled(kind, body, label)
            seen = b"\0".join((user.encode(), kind.encode(), str(label).encode(), body))
            call = service.call_id(token.id, "upload", idempotency_key, seen)
            wipe(seen)
            known = call is not None and service.home.inbox.called(call) is not None
            made = service.kind.made(x, service.settings.unpacked_bytes)
            done = _staged(service, token, user, made, y, call)
            wipe_arrays(x, made)
            staged = service.home.inbox.waits(done.id)
            state = "staged" if staged else "learned" if done.round is not None else "erased"
            if not known:
                total = sum(each.samples for each in service.home.inbox.uploads())
                service.events.tell("upload.staged", samples=done.samples, staged=total)
                service.trainer.wake()
            return s.Upload(id=done.id, state=state, samples=done.samples, round=done.round), known  # type: ignore[arg-type]

        told, known = await service.bodies.unpacked(request, work)
        return reply(request, told, 201, REPLAYED if known else None)

    @routes.get("/v1/users/{user}", response_model=s.User, responses=documented(422))
    def look(user: UserId, request: Request, token: Annotated[Token, own]) -> Response:
        """What is held of a user. Of a user of whom nothing is held: zeros."""
        return reply(request, views.user(service, user))

    @routes.post(
        "/v1/users/{user}/erasures",
        status_code=202,
        response_model=s.Request,
        responses=documented(408, 409, 422),
        openapi_extra={"requestBody": erasure_schema()},
    )
    async def erase(
        user: UserId, request: Request, token: Annotated[Token, own], idempotency_key: Key = None
    ) -> Response:
        """Forget. When this answers it is in effect: nothing that is stored or served has seen the samples."""
        if "operator" not in token.scopes and (wait := often.taken(token.id)):
            raise ProblemError(429, "too many erasures with this token", {"Retry-After": str(wait)})

        def work(body: bytes) -> Response:
            wanted = erasure_of(request.headers.get("content-type", ""), body)
            asked = _asked(user, wanted)
            asks = wanted.model_dump_json(exclude={"nonce"} if wanted.nonce is None else None)
            seen = b"\0".join((user.encode(), asks.encode()))
            # bound: of another user's erasure it must never be said that it was done before
            id_ = service.call_id(token.id, "erasure", idempotency_key, seen, bound=True) or token_hex(16)
            new = service.erasures.erase(asked, id_)
            service.trainer.erased()
            told = views.request(service, id_)
            assert told is not None
            return reply(request, told, 202, {"Location": f"/v1/requests/{id_}"} | ({} if new else REPLAYED))

        return await service.bodies.read(request, work)

    @routes.post(
        "/v1/users/{user}/erasures/plan",
        response_model=s.Plan,
        responses=documented(408, 409, 422),
        openapi_extra={"requestBody": erasure_schema()},
    )
    async def plan(user: UserId, request: Request, token: Annotated[Token, own]) -> Response:
        """What an erasure would touch and cost. Changes nothing."""

        def work(body: bytes) -> Response:
            wanted = erasure_of(request.headers.get("content-type", ""), body)
            return reply(request, views.plan(service, _asked(user, wanted)))

        return await service.bodies.read(request, work)

    return routes


def _staged(
    service: Service, token: Token, user: str, x: NDArray[Any], y: NDArray[np.int64], call: str | None
) -> Called:
    try:
        return service.device.stage(user, x, y, call=call)
    except ArrivalError as error:  # it speaks of this upload alone
        raise ProblemError(422, str(error)) from None
    except InputError as error:
        # it may be of another user's request that was served first, or of what this user staged before
        if "operator" in token.scopes:
            raise
        raise ProblemError(409, f"these samples cannot be staged now: {kind_of(error)}") from None


def _asked(user: str, body: s.Erasure) -> Asked:
    samples = None if body.samples is None else tuple((pair[0], pair[1]) for pair in body.samples)
    return Asked(user, None if body.rounds is None else tuple(body.rounds), body.count, samples, nonce=body.nonce)
