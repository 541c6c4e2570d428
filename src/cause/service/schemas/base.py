"""What all bodies share: the base class, errors, and the types of times, ids and segments."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Segment = Annotated[list[int], Field(min_length=3, max_length=3, examples=[[0, 2, 0]])]
Time = Annotated[str, Field(examples=["2026-01-31T12:00:00.000Z"])]
Id = Annotated[str, Field(examples=["6f1e1cf83eab4c0aa0ffb5d0f9e8a4f5"])]
USER_PATTERN = r"^[^\x00-\x1f\x7f\uFFFD]+$"
"""What a user's id matches."""


class ResponseModel(BaseModel):
    """The base class of all bodies of responses."""

    model_config = ConfigDict(frozen=True)


class Problem(ResponseModel):
    """An error, as in RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None


class Health(ResponseModel):
    """Whether the service is up."""

    status: Literal["ok", "ready", "starting", "stopping"]
