"""A user's own: uploads, what is held, erasures."""

from collections.abc import Mapping
from secrets import token_hex
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Header, Query, Request, Response
from numpy.typing import NDArray

from cause.common.names import normal_name
from cause.common.zeroize import wipe_arrays
from cause.device.store.inbox import Called
from cause.device.vault.secrets_in_memory import wipe, wiping
from cause.engine.requests import Request as Asked
from cause.errors import ArrivalError, InputError
from cause.service import schemas as s
from cause.service import views
from cause.service.access import UserId, allowed, for_user
from cause.service.inputs import erasure_of, erasure_schema, owned_schema, rows_schema, schema
from cause.service.limits import Rate
from cause.service.problems import ProblemError, documented
from cause.service.redact import kind_of
from cause.service.responses import reply
from cause.service.routes.pages import Before, Limit
from cause.service.service import Service
from cause.service.tokens import Token

Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=128, pattern=r"^[\x20-\x7e]+$")]
REPLAYED = {"Idempotent-Replayed": "true"}
NOTHING_HELD = "nothing was held of this user: is the name right?"


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
            name = normal_name(user)
            x, y = service.reader.labelled(kind, body, label, one_user=True)
            seen = b"\0".join((user.encode(), kind.encode(), str(label).encode(), body))
            call = service.call_id(token.id, "upload", idempotency_key, seen)
            wipe(seen)
            known = call is not None and service.home.inbox.called(call) is not None
            made = service.kind.made(x, service.settings.unpacked_bytes)
            done = _staged(service, token, {name: (made, y)}, {} if call is None else {name: call})[name]
            wipe_arrays(x, made)
            if not known:
                _tell_staged(service, done.samples)
            return s.Upload(**_shown(service, done, len(y))), known

        told, known = await service.bodies.unpacked(request, work)
        return reply(request, told, 201, REPLAYED if known else None)

    @routes.post(
        "/v1/samples",
        status_code=201,
        response_model=s.Uploads,
        responses=documented(408, 409, 415, 422),
        openapi_extra={"requestBody": owned_schema(service.reader.form)},
    )
    async def upload_samples_of_several_users(
        request: Request, token: Annotated[Token, allowed("ingest", "operator")], idempotency_key: Key = None
    ) -> Response:
        """Stage samples of several users for the next round, all of them or none: each row says whose it is."""
        kind = request.headers.get("content-type", "")

        def work(body: bytes) -> tuple[s.Uploads, bool]:
            with wiping(body):
                return stage(body)

        def stage(body: bytes) -> tuple[s.Uploads, bool]:
            x, y, users = service.reader.owned(kind, body)
            seen = b"\0".join((kind.encode(), body))
            call = service.call_id(token.id, "bulk", idempotency_key, seen)
            wipe(seen)
            made = service.kind.made(x, service.settings.unpacked_bytes)
            rows: dict[str, list[int]] = {}
            for at, user in enumerate(users):
                rows.setdefault(user, []).append(at)
            calls = {} if call is None else {user: service.part_of(call, user) for user in rows}
            known = any(service.home.inbox.called(each) is not None for each in calls.values())
            done = _staged(service, token, {user: (made[own], y[own]) for user, own in rows.items()}, calls)
            wipe_arrays(x, made)
            if not known:
                _tell_staged(service, len(y))
            uploads = {user: _shown(service, done[user], len(own)) for user, own in rows.items()}
            left = {user: iter(each["handles"]) for user, each in uploads.items()}
            whole = all(each["handles"] for each in uploads.values())
            told = s.Uploads(
                samples=sum(each.samples for each in done.values()),
                uploads=[s.UserUpload(user=user, **each) for user, each in uploads.items()],
                handles=[next(left[user]) for user in users] if whole else [],
            )
            return told, known

        told, known = await service.bodies.unpacked(request, work)
        return reply(request, told, 201, REPLAYED if known else None)

    @routes.get("/v1/users/{user}", response_model=s.User, responses=documented(422))
    def look(user: UserId, request: Request, token: Annotated[Token, own]) -> Response:
        """What is held of a user. Of a user of whom nothing is held: zeros."""
        return reply(request, views.user(service, service.device.name_of(user)))

    @routes.get("/v1/users/{user}/samples", response_model=s.HeldSamples, responses=documented(422))
    def samples(
        user: UserId,
        request: Request,
        token: Annotated[Token, own],
        round: Annotated[int | None, Query(ge=1, lt=2**31, description="Only of this round")] = None,  # noqa: A002
        before: Before = None,
        limit: Limit = 50,
    ) -> Response:
        """What is held of a user, sample by sample, the newest first: rounds, handles and labels."""
        return reply(request, views.samples(service, service.device.name_of(user), round, before, limit))

    @routes.post(
        "/v1/users/{user}/samples/matching",
        response_model=s.Matched,
        responses=documented(408, 415, 422),
        openapi_extra={"requestBody": rows_schema(service.reader.form)},
    )
    async def match(user: UserId, request: Request, token: Annotated[Token, own]) -> Response:
        """Which samples of a user equal these rows: their handles, for an erasure. Changes and keeps nothing."""
        kind = request.headers.get("content-type", "")

        def work(body: bytes) -> s.Matched:
            with wiping(body):
                x, y = service.reader.rows(kind, body)
                made = service.kind.made(x, service.settings.unpacked_bytes)
                found = service.device.match(user, made, y)
                wipe_arrays(x, made)
            return s.Matched(rows=found.rows, unmatched=len(found.unmatched), handles=list(found.handles))

        return reply(request, await service.bodies.unpacked(request, work))

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
            later = {"nonce", "handles"} & {name for name, value in wanted if value is None}
            asks = wanted.model_dump_json(exclude=later)  # a repeated request of an earlier version is the same
            seen = b"\0".join((user.encode(), asks.encode()))
            # bound: of another user's erasure it must never be said that it was done before
            id_ = service.call_id(token.id, "erasure", idempotency_key, seen, bound=True) or token_hex(16)
            new = service.erasures.erase(asked, id_)
            service.trainer.erased()
            told = views.request(service, id_)
            assert told is not None
            if "operator" in token.scopes and asked.everything and told.samples == 0:
                told = told.model_copy(update={"note": NOTHING_HELD})
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
    service: Service,
    token: Token,
    uploads: Mapping[str, tuple[NDArray[Any], NDArray[np.int64]]],
    calls: Mapping[str, str],
) -> dict[str, Called]:
    try:
        return service.device.stage_all(uploads, calls=calls)
    except ArrivalError as error:  # it speaks of these uploads alone
        raise ProblemError(422, str(error)) from None
    except InputError as error:
        # it may be of another user's request that was served first, or of what this user staged before
        if "operator" in token.scopes:
            raise
        raise ProblemError(409, f"these samples cannot be staged now: {kind_of(error)}") from None


def _shown(service: Service, done: Called, rows: int) -> dict[str, Any]:
    """An upload, as the answer has it. Handles go with rows: where a row is missing there are none."""
    staged = service.home.inbox.waits(done.id)
    state = "staged" if staged else "learned" if done.round is not None else "erased"
    handles = list(done.handles) if len(done.handles) == rows else []
    return {"id": done.id, "state": state, "samples": done.samples, "round": done.round, "handles": handles}


def _tell_staged(service: Service, samples: int) -> None:
    total = sum(each.samples for each in service.home.inbox.uploads())
    service.events.tell("upload.staged", samples=samples, staged=total)
    service.trainer.wake()


def _asked(user: str, body: s.Erasure) -> Asked:
    samples = None if body.samples is None else tuple((pair[0], pair[1]) for pair in body.samples)
    rounds = None if body.rounds is None else tuple(body.rounds)
    handles = None if body.handles is None else tuple(body.handles)
    return Asked(user, rounds, body.count, samples, handles, body.nonce)
