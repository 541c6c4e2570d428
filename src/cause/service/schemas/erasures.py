"""Erasures: what to forget, what became of it, and what it would cost."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from cause.common.names import LONGEST_USER_ID
from cause.device.store.blocks import HANDLE_BYTES
from cause.service.schemas.base import USER_PATTERN, Id, ResponseModel, Segment, Time

MOST_ERASURES = 500
"""Users in one request for several erasures."""


def _erasure_schema(schema: dict[str, Any]) -> None:
    """Add examples, and delete null from the types of the fields: a client may leave them out, but not send null."""
    schema["examples"] = [{}, {"rounds": [1]}, {"rounds": [1], "count": 5}, {"handles": ["0123456789abcdef"]}]
    for field in schema["properties"].values():
        (only,) = (type_ for type_ in field.pop("anyOf") if type_ != {"type": "null"})
        field.pop("default")
        field.update(only)


def _user_erasure_schema(schema: dict[str, Any]) -> None:
    user = schema["properties"].pop("user")
    _erasure_schema(schema)
    schema["properties"] = {"user": user, **schema["properties"]}
    schema["examples"] = [{"user": "alice"} | example for example in schema["examples"]]


class Erasure(BaseModel):
    """What to forget: everything, some rounds, the lowest `count` samples of one round, or named samples.

    A row is named by its handle, which its upload answered with. A position is a random number inside the device and
    not the row's number in the upload, so the samples with the lowest ones are a random part of the round.

    A field that is left out sets no limit. A field that is null is refused: a program whose list of handles was never
    filled must not erase everything.
    """

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_erasure_schema)
    rounds: list[Annotated[int, Field(ge=1, lt=2**31)]] | None = Field(None, min_length=1, max_length=1000)
    count: int | None = Field(None, ge=1, lt=2**31)
    samples: list[Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=2, max_length=2)]] | None = (
        Field(
            None,
            min_length=1,
            max_length=10_000,
            description="Pairs of round and position. A position is a random number inside the device, not the row's "
            "number in the upload: to forget a row, send its handle.",
        )
    )
    handles: list[Annotated[str, Field(min_length=1, max_length=2 * HANDLE_BYTES)]] | None = Field(
        None, min_length=1, max_length=10_000, description="What an upload answered with for each of its rows"
    )
    nonce: str | None = Field(
        None, min_length=1, max_length=128, description="A random text that the receipts commit to, as nonce_sha256"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        if value is None:
            raise PydanticCustomError("null", "null is refused: leave the field out where it sets no limit")
        return value


class OwnRequest(ResponseModel):
    """An erasure and its state, as tokens read it that are neither an operator's nor an auditor's."""

    id: Id
    state: Literal["accepted", "in_effect", "repaired"]
    received: Time
    deadline: Time
    effective: Time | None
    repaired: Time | None
    samples: int | None
    staged: int
    receipts: list[int]
    note: str | None = Field(None, description="To an operator who asked: that nothing was held of the user")


class Request(OwnRequest):
    """An erasure and its state."""

    shards: list[int]
    rsn_planned: int | None


class UserErasure(Erasure):
    """What to forget of one user."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_user_erasure_schema)
    user: str = Field(min_length=1, max_length=LONGEST_USER_ID, pattern=USER_PATTERN, examples=["alice"])


class Erasures(BaseModel):
    """What to forget of several users, each named once."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"erasures": [{"user": "alice"}, {"user": "bob", "rounds": [1]}]}]},
    )
    erasures: list[UserErasure] = Field(min_length=1, max_length=MOST_ERASURES)


class UserRequest(Request):
    """An erasure of several users' that were asked for together, and whose it is."""

    user: str


class UserRequests(ResponseModel):
    """The erasures of several users, in the order of the request."""

    requests: list[UserRequest]


class Requests(ResponseModel):
    """A page of erasures."""

    items: list[Request]
    next: int | None


class PlanShard(ResponseModel):
    """What an erasure would do in one shard."""

    shard: int
    samples: int
    first: Segment
    restart: Segment | None
    replay: list[Segment]
    rsn: int


class OwnPlan(ResponseModel):
    """What an erasure would delete, as the user's own token reads it."""

    samples: int
    staged: int


class Plan(OwnPlan):
    """What an erasure would delete and cost."""

    rsn: int
    destroyed: list[Segment]
    shards: list[PlanShard]
    seconds: float | None
    joules: float | None
    unknown: str | None
