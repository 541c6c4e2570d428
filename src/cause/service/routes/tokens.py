"""Routes of tokens, for admins: list, make, revoke."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from cause.errors import InputError
from cause.service import schemas as s
from cause.service.access import require_scope
from cause.service.inputs import JSON, parse_json
from cause.service.problems import ProblemError, documented
from cause.service.responses import json_response, optional_timestamp, timestamp
from cause.service.routes.pages import Before, Limit
from cause.service.service import Service
from cause.service.tokens import Token

Admin = Annotated[Token, require_scope("admin")]
TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", examples=["6f1e1cf83eab4c0a"])]
DAY_S = 86_400.0


def router(service: Service) -> APIRouter:
    """Return the routes of tokens."""
    routes = APIRouter(tags=["tokens"])
    tokens = service.tokens

    def listed(token: Token) -> s.ListedToken:
        revoked = optional_timestamp(token.revoked)
        return s.ListedToken(**_fields(token), revoked=revoked, valid=tokens.is_valid(token))

    @routes.get("/v1/tokens", response_model=s.ListedTokens, responses=documented(422))
    def list_tokens(request: Request, token: Admin, before: Before = None, limit: Limit = 50) -> Response:
        """Tokens, newest first, without their secrets; revoked and expired ones too."""
        kept = tokens.list_all()
        end = len(kept) if before is None else min(before, len(kept))
        start = max(0, end - limit)
        items = [listed(token) for token in kept[start:end][::-1]]
        return json_response(request, s.ListedTokens(items=items, next=start or None))

    @routes.post(
        "/v1/tokens",
        status_code=201,
        response_model=s.NewToken,
        responses=documented(408, 422),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {JSON: {"schema": {"$ref": "#/components/schemas/CreateToken"}}},
            }
        },
    )
    async def create_token(request: Request, token: Admin) -> Response:
        """Make a token. Its secret is in this answer and nowhere else."""

        def work(body: bytes) -> Response:
            made = parse_json(s.CreateToken, body)
            try:
                created, secret = tokens.create(
                    made.scopes, user=made.user, note=made.note, expires_s=made.days * DAY_S
                )
            except InputError as error:
                raise ProblemError(422, str(error)) from None
            return json_response(request, s.NewToken(**_fields(created), secret=secret), 201)

        return await service.body_reader.read(request, work)

    @routes.post("/v1/tokens/{id}/revocation", response_model=s.ListedToken, responses=documented(404, 422))
    def revoke_token(id: TokenId, request: Request, token: Admin) -> Response:  # noqa: A002
        """Revoke a token: the next request with it is refused. A second call changes nothing."""
        named = next((token for token in tokens.list_all() if token.id == id), None)
        if named is None:
            raise ProblemError(404, f"there is no token {id!r}")
        if named.revoked is None:
            tokens.revoke(id)
            named = next(token for token in tokens.list_all() if token.id == id)
        return json_response(request, listed(named))

    return routes


def _fields(token: Token) -> dict[str, Any]:
    return {
        "id": token.id, "scopes": sorted(token.scopes), "note": token.note, "created": timestamp(token.created),
        "expires": timestamp(token.expires),
    }  # fmt: skip
