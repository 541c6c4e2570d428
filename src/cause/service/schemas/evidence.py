"""Receipts, the log and verifications."""

from typing import Literal

from pydantic import Field

from cause.service.schemas.base import Id, ResponseModel, Time


class Receipt(ResponseModel):
    """What a receipt says."""

    number: int
    kind: Literal["effect", "repair", "restore"]
    request: Id
    received: Time
    in_effect: Time
    repaired: Time | None
    samples: int
    destroyed: int
    shards: list[int]


class Receipts(ResponseModel):
    """A page of receipts."""

    items: list[Receipt]
    next: int | None


class Bundle(ResponseModel):
    """A receipt with its proof and a signed checkpoint of the log."""

    number: int
    receipt: str
    proof: list[str]
    checkpoint: str


class Bundles(ResponseModel):
    """The receipts of one request."""

    receipts: list[Bundle]


class Verification(ResponseModel):
    """A verification by replay and its result."""

    id: Id
    receipt: int | None
    state: Literal["running", "holds", "nothing", "mismatch", "failed"] = Field(
        description="`nothing`: signature and proof hold, and there was no sub-model to replay"
    )
    started: Time
    finished: Time | None = None
    sub_models: int | None = None
    identical: int | None = None
    mismatched: int | None = None
    unverifiable: int | None = None
    superseded: int | None = None
    detail: str | None = None


class Log(ResponseModel):
    """The signed head of the log, and the key to check it with."""

    verifier: str
    size: int
    checkpoint: str


class Consistency(ResponseModel):
    """The proof that the log has only grown."""

    since: int
    size: int
    proof: list[str]
