"""Route dependencies that check a token's scopes."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any

from fastapi import Depends, Path, Request

from cause.service.problems import ProblemError
from cause.service.schemas import USER_PATTERN
from cause.service.tokens import SCOPES, Token, Tokens

UserId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=256,
        pattern=USER_PATTERN,
        description="A user's id, percent-encoded. Proxies and browsers change paths with `%2F`, `.` or `..`: such an "
        "id can be sent in the query instead, as in /v1/user/samples?user=..",
        examples=["alice"],
    ),
]
INSPECTORS = frozenset({"operator", "auditor"})
"""Scopes whose answers may depend on what several users hold."""


def inspects(token: Token) -> bool:
    """Return whether a token may read what depends on other users: shards, plans, retrained samples.

    All other tokens get the forms of `schemas` whose names begin with `Own`.
    """
    return bool(token.scopes & INSPECTORS)


def require_scope(*scopes: str) -> Any:
    """Return a dependency that requires a token with one of these scopes (403 otherwise) and yields the token."""

    async def check(request: Request) -> Token:
        token: Token = request.state.token
        if not token.scopes & set(scopes):
            raise ProblemError(403, f"this needs a token of scope {_joined(scopes)}; {_scopes_of(token)}")
        return token

    return _dependency(check, scopes)


def require_user(tokens: Tokens, *scopes: str) -> Any:
    """Return a dependency that requires a token with one of these scopes, or the token of the user in the path.

    Whether the user exists is not looked up, so a refusal does not reveal it.

    Parameters
    ----------
    tokens
        Decides whether a token was made for the user.
    scopes
        Scopes that may act for every user.
    """

    async def check(request: Request) -> Token:
        token: Token = request.state.token
        is_users_token = tokens.belongs_to(token, str(request.path_params.get("user", "")))
        if not (token.scopes & set(scopes) or ("user" in token.scopes and is_users_token)):
            others = f", or one of scope {_joined(scopes)}" if scopes else ""
            raise ProblemError(403, f"this needs a token of this user{others}; {_scopes_of(token)}")
        return token

    return _dependency(check, ("user", *scopes))


ANY = SCOPES


def _joined(scopes: Iterable[str]) -> str:
    return " or ".join(scopes)


def _scopes_of(token: Token) -> str:
    return f"yours has: {', '.join(sorted(token.scopes))}"


def _dependency(check: Callable[[Request], Awaitable[Token]], scopes: tuple[str, ...]) -> Any:
    check.scopes = scopes  # type: ignore[attr-defined]  # tests read it from all routes
    return Depends(check)
