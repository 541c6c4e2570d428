"""Tokens and their scopes."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from cause.common.names import LONGEST_USER_ID
from cause.service.schemas.base import ResponseModel, Time


class Token(ResponseModel):
    """A token, without its secret."""

    id: str
    scopes: list[str]
    note: str
    created: Time
    expires: Time


class ListedToken(Token):
    """A token as lists show it. Whom the token of a user is for is not kept anywhere."""

    revoked: Time | None
    valid: bool = Field(description="Neither revoked nor expired")


class ListedTokens(ResponseModel):
    """A page of tokens."""

    items: list[ListedToken]
    next: int | None


class NewToken(Token):
    """A token that was just made."""

    secret: str = Field(description="What clients send; it is shown this once")


class CreateToken(BaseModel):
    """What a new token may do."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"scopes": ["predict"], "note": "the camera at the door", "days": 30}]},
    )
    scopes: list[Literal["user", "ingest", "predict", "operator", "auditor", "admin"]] = Field(
        min_length=1, max_length=6
    )
    user: str | None = Field(
        None, min_length=1, max_length=LONGEST_USER_ID, description="With the scope `user`: the user whom it is for"
    )
    note: str = Field("", max_length=200, description="A line for lists of tokens; no names")
    days: float = Field(90.0, gt=0, le=3650, description="Until it expires")
