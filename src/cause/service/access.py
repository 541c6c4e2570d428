"""Which token may use a route."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Path, Request

from cause.service.problems import ProblemError
from cause.service.tokens import SCOPES, Token, Tokens

UserId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=256,
        pattern=r"^[^\x00-\x1f\x7f/\uFFFD]+$",
        description="A user's id, percent-encoded",
        examples=["alice"],
    ),
]
NO = "this token does not allow it"


def allowed(*scopes: str) -> Any:
    """A token with one of these scopes; the token itself."""

    async def check(request: Request) -> Token:
        token: Token = request.state.token
        if not token.scopes & set(scopes):
            raise ProblemError(403, NO)
        return token

    return _told(check, scopes)


def for_user(tokens: Tokens, *scopes: str) -> Any:
    """A token with one of these scopes, or one of the very user. Nobody is looked up to decide it."""

    async def check(request: Request) -> Token:
        token: Token = request.state.token
        own = tokens.is_of(token, str(request.path_params.get("user", "")))
        if not (token.scopes & set(scopes) or ("user" in token.scopes and own)):
            raise ProblemError(403, NO)
        return token

    return _told(check, ("user", *scopes))


ANY = SCOPES


def _told(check: Callable[[Request], Awaitable[Token]], scopes: tuple[str, ...]) -> Any:
    check.scopes = scopes  # type: ignore[attr-defined]  # for the schema, and for tests that go through all routes
    return Depends(check)
