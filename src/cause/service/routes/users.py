"""Routes of one user's data: uploads, what is held, erasures."""

from collections.abc import Mapping
from contextlib import nullcontext
from secrets import token_hex
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Header, Query, Request, Response
from numpy.typing import NDArray

from cause.common.names import normal_name
from cause.common.zeroize import wipe_arrays
from cause.device.store.inbox import CallResult
from cause.device.vault.secrets_in_memory import wipe, wiping
from cause.engine.requests import Request as ForgetRequest
from cause.errors import ArrivalError, BudgetError, InputError
from cause.service import schemas as s
from cause.service import views
from cause.service.access import UserId, require_scope, require_user
from cause.service.input_schemas import bulk_schema, erasure_schema, rows_schema, schema
from cause.service.inputs import parse_erasure
from cause.service.limits import RateLimiter
from cause.service.problems import STORAGE_FULL, ProblemError, documented
from cause.service.redact import redacted_message
from cause.service.responses import json_response
from cause.service.routes.pages import Before, Limit
from cause.service.service import Service
from cause.service.tokens import Token

Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=128, pattern=r"^[\x20-\x7e]+$")]
REPLAYED = {"Idempotent-Replayed": "true"}
NO_ROOM = "the device has no room for these samples now: forget some, or ask its operator"
NOTHING_HELD = "nothing was held of this user: is the name right?"


def router(service: Service) -> APIRouter:
    """Return the routes of users' data."""
    routes = APIRouter(tags=["users"])
    may_upload = require_user(service.tokens, "ingest", "operator")
    may_manage = require_user(service.tokens, "operator")
    erasure_rates = RateLimiter(service.settings.erasures / 3600, service.settings.erasures)
    service.on_reload.append(lambda settings: erasure_rates.configure(settings.erasures / 3600, settings.erasures))

    @routes.post(
        "/v1/users/{user:user_id}/samples",
        status_code=201,
        response_model=s.Upload,
        responses=documented(408, 409, 415, 422),
        openapi_extra={"requestBody": schema(service.reader.layout, labels=True)},
    )
    async def upload_samples(
        user: UserId,
        request: Request,
        token: Annotated[Token, may_upload],
        label: Annotated[int | None, Query(ge=0, le=service.device.classes - 1, description="Of a picture")] = None,
        idempotency_key: Key = None,
    ) -> Response:
        """Stage samples for the next round: sealed and durable when this answers."""
        kind = request.headers.get("content-type", "")

        def work(body: bytes) -> tuple[s.Upload, bool]:
            with wiping(body):  # no one else refers to it, and freed memory is not overwritten
                return stage(body)

        def stage(body: bytes) -> tuple[s.Upload, bool]:
            name = normal_name(user)
            x, y = service.reader.read_labelled(kind, body, label, one_user=True)
            call_body = b"\0".join((user.encode(), kind.encode(), str(label).encode(), body))
            call = service.call_id(token.id, "upload", idempotency_key, call_body)
            wipe(call_body)
            repeated = call is not None and service.home.inbox.result_of_call(call) is not None
            converted = service.converter.convert(x, service.settings.unpacked_bytes)
            staged = _stage(service, token, {name: (converted, y)}, {} if call is None else {name: call})[name]
            wipe_arrays(x, converted)
            if not repeated:
                _publish_staged(service, staged.samples)
            if call is not None and not staged.samples:
                service.forget_body("upload", call)
            return s.Upload(**_upload_fields(service, staged, len(y))), repeated

        shown, repeated = await service.body_reader.unpack(request, work)
        return json_response(request, shown, 201, REPLAYED if repeated else None)

    @routes.post(
        "/v1/samples",
        status_code=201,
        response_model=s.Uploads,
        responses=documented(408, 409, 415, 422),
        openapi_extra={"requestBody": bulk_schema(service.reader.layout)},
    )
    async def upload_samples_of_several_users(
        request: Request, token: Annotated[Token, require_scope("ingest", "operator")], idempotency_key: Key = None
    ) -> Response:
        """Stage samples of several users for the next round, all of them or none: each row says whose it is."""
        kind = request.headers.get("content-type", "")

        def work(body: bytes) -> tuple[s.Uploads, bool]:
            with wiping(body):
                return stage(body)

        def stage(body: bytes) -> tuple[s.Uploads, bool]:
            x, y, users = service.reader.read_bulk(kind, body)
            call_body = b"\0".join((kind.encode(), body))
            call = service.call_id(token.id, "bulk", idempotency_key, call_body)
            wipe(call_body)
            converted = service.converter.convert(x, service.settings.unpacked_bytes)
            rows: dict[str, list[int]] = {}
            for at, user in enumerate(users):
                rows.setdefault(user, []).append(at)
            calls = {} if call is None else {user: service.part_id(call, user) for user in rows}
            repeated = any(service.home.inbox.result_of_call(id_) is not None for id_ in calls.values())
            staged = _stage(service, token, {user: (converted[at], y[at]) for user, at in rows.items()}, calls)
            wipe_arrays(x, converted)
            if not repeated:
                _publish_staged(service, len(y))
            if call is not None and not all(upload.samples for upload in staged.values()):
                service.forget_body("bulk", call)
            uploads = {user: _upload_fields(service, staged[user], len(at)) for user, at in rows.items()}
            handles = {user: iter(fields["handles"]) for user, fields in uploads.items()}
            complete = all(fields["handles"] for fields in uploads.values())
            shown = s.Uploads(
                samples=sum(upload.samples for upload in staged.values()),
                uploads=[s.UserUpload(user=user, **fields) for user, fields in uploads.items()],
                handles=[next(handles[user]) for user in users] if complete else [],
            )
            return shown, repeated

        shown, repeated = await service.body_reader.unpack(request, work)
        return json_response(request, shown, 201, REPLAYED if repeated else None)

    @routes.get("/v1/users/{user:user_id}", response_model=s.User | s.OwnUser, responses=documented(422))
    def look(user: UserId, request: Request, token: Annotated[Token, may_manage]) -> Response:
        """What is held of a user. Of a user of whom nothing is held: zeros."""
        return json_response(request, views.user_for(token, views.user(service, service.device.name_of(user))))

    @routes.get("/v1/users/{user:user_id}/samples", response_model=s.HeldSamples, responses=documented(422))
    def samples(
        user: UserId,
        request: Request,
        token: Annotated[Token, may_manage],
        round: Annotated[int | None, Query(ge=1, lt=2**31, description="Only of this round")] = None,  # noqa: A002
        before: Before = None,
        limit: Limit = 50,
    ) -> Response:
        """What is held of a user, sample by sample, the newest first: rounds, handles and labels."""
        return json_response(request, views.samples(service, service.device.name_of(user), round, before, limit))

    @routes.post(
        "/v1/users/{user:user_id}/samples/matching",
        response_model=s.Matched,
        responses=documented(408, 415, 422),
        openapi_extra={"requestBody": rows_schema(service.reader.layout)},
    )
    async def match(user: UserId, request: Request, token: Annotated[Token, may_manage]) -> Response:
        """Which samples of a user equal these rows: their handles, for an erasure. Changes and keeps nothing."""
        kind = request.headers.get("content-type", "")

        def work(body: bytes) -> s.Matched:
            with wiping(body):
                x, y = service.reader.read_rows(kind, body)
                converted = service.converter.convert(x, service.settings.unpacked_bytes)
                matches = service.device.match(user, converted, y)
                wipe_arrays(x, converted)
            return s.Matched(rows=matches.rows, unmatched=len(matches.unmatched), handles=list(matches.handles))

        return json_response(request, await service.body_reader.unpack(request, work))

    @routes.post(
        "/v1/users/{user:user_id}/erasures",
        status_code=202,
        response_model=s.Request | s.OwnRequest,
        responses=documented(408, 409, 422),
        openapi_extra={"requestBody": erasure_schema()},
    )
    async def erase(
        user: UserId, request: Request, token: Annotated[Token, may_manage], idempotency_key: Key = None
    ) -> Response:
        """Forget. When this answers it is in effect: nothing that is stored or served has seen the samples."""
        if "operator" not in token.scopes and (wait := erasure_rates.take(token.id)):
            limit = f"at most {service.settings.erasures:,} an hour (setting `erasures`)"
            raise ProblemError(429, f"too many erasures with this token: {limit}", {"Retry-After": str(wait)})

        def work(body: bytes) -> Response:
            erasure = parse_erasure(request.headers.get("content-type", ""), body)
            to_forget = forget_request(user, erasure)
            # without fields that earlier versions did not have: a request that they sent and repeat stays the same
            unset = {"nonce", "handles"} & {name for name, value in erasure if value is None}
            call_body = b"\0".join((user.encode(), erasure.model_dump_json(exclude=unset).encode()))
            # bound: the erasure of another user must never be taken for a repeated one
            id_ = service.call_id(token.id, "erasure", idempotency_key, call_body, bound=True) or token_hex(16)
            new = service.erasures.erase(to_forget, id_)
            service.trainer.erased()
            shown = views.request(service, id_)
            assert shown is not None
            if "operator" in token.scopes and to_forget.everything and shown.samples == 0:
                shown = shown.model_copy(update={"note": NOTHING_HELD})
            headers = {"Location": f"/v1/requests/{id_}"} | ({} if new else REPLAYED)
            return json_response(request, views.request_for(token, shown), 202, headers)

        return await service.body_reader.read(request, work)

    @routes.post(
        "/v1/users/{user:user_id}/erasures/plan",
        response_model=s.Plan | s.OwnPlan,
        responses=documented(408, 409, 422),
        openapi_extra={"requestBody": erasure_schema()},
    )
    async def plan(user: UserId, request: Request, token: Annotated[Token, may_manage]) -> Response:
        """What an erasure would touch and cost. Changes nothing."""

        def work(body: bytes) -> Response:
            erasure = parse_erasure(request.headers.get("content-type", ""), body)
            return json_response(request, views.plan_for(token, views.plan(service, forget_request(user, erasure))))

        return await service.body_reader.read(request, work)

    return routes


def _stage(
    service: Service,
    token: Token,
    uploads: Mapping[str, tuple[NDArray[Any], NDArray[np.int64]]],
    calls: Mapping[str, str],
) -> dict[str, CallResult]:
    limited = not token.scopes & {"ingest", "operator"}
    try:
        # the device's lock would be held while the upload is checked, which takes long
        with service.quotas.turn if limited else nullcontext():
            for user, (x, y) in uploads.items():
                repeated = user in calls and service.home.inbox.result_of_call(calls[user]) is not None
                if limited and not repeated:
                    service.quotas.check(user, len(y), x.nbytes)
            return service.device.stage_all(uploads, calls=calls, expire=False)
    except ArrivalError as error:  # its message is about these uploads alone
        raise ProblemError(422, str(error)) from None
    except BudgetError:  # its message says how much all users hold
        if "operator" in token.scopes:
            raise
        raise ProblemError(409, NO_ROOM, kind=STORAGE_FULL) from None
    except InputError as error:
        # its message may be about another user's request that was served first: only operators may read it
        if "operator" in token.scopes:
            raise
        raise ProblemError(409, f"these samples cannot be staged now: {redacted_message(error)}") from None


def _upload_fields(service: Service, upload: CallResult, rows: int) -> dict[str, Any]:
    """Return the fields of `s.Upload`. Handles correspond to rows: if one row was forgotten, none are returned."""
    waits = service.home.inbox.waits(upload.id)
    now = service.home.inbox.result_of_call(upload.id) or upload  # a round may have taken it in since it was staged
    state = "staged" if waits else "learned" if now.round is not None and now.samples else "erased"
    handles = list(upload.handles) if len(upload.handles) == rows else []
    round_ = now.round if state == "learned" else None
    return {"id": upload.id, "state": state, "samples": now.samples, "round": round_, "handles": handles}


def _publish_staged(service: Service, samples: int) -> None:
    total = sum(upload.samples for upload in service.home.inbox.uploads())
    service.events.publish("upload.staged", samples=samples, staged=total)
    service.trainer.note_rounds()
    service.trainer.wake()


def forget_request(user: str, body: s.Erasure) -> ForgetRequest:
    """Return the request that an erasure of a user means."""
    samples = None if body.samples is None else tuple((pair[0], pair[1]) for pair in body.samples)
    rounds = None if body.rounds is None else tuple(body.rounds)
    handles = None if body.handles is None else tuple(body.handles)
    return ForgetRequest(user, rounds, body.count, samples, handles, body.nonce)
