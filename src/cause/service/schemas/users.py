"""Uploads, samples and users: what is held of whom."""

from typing import Literal

from pydantic import Field

from cause.service.schemas.base import Id, ResponseModel, Time


class Upload(ResponseModel):
    """Samples of one user that arrived in one request."""

    id: Id
    state: Literal["staged", "learned", "erased"] = Field(
        description="Of a repeated upload `erased` once any of its samples were forgotten after its round was closed"
    )
    samples: int = Field(description="How many wait or were learned; 0 if erased, also while others of them are held")
    round: int | None = None
    handles: list[str] = Field(
        [],
        description="One for each row, in the order of the upload; empty in a repeated answer once the round is closed "
        "or a row was forgotten",
    )


class UserUpload(Upload):
    """One user's part of an upload of several users."""

    user: str
    handles: list[str] = Field([], description="One for each row of this user, in the order of the upload")


class Uploads(ResponseModel):
    """Samples of several users that arrived in one request."""

    samples: int
    uploads: list[UserUpload]
    handles: list[str] = Field([], description="One for each row of the request, in its order; empty as in `Upload`")


class HeldSample(ResponseModel):
    """One sample that the device holds."""

    round: int | None = Field(description="None while it waits for a round")
    handle: str
    label: int
    arrived: Time


class HeldSamples(ResponseModel):
    """A page of a user's samples."""

    items: list[HeldSample]
    next: int | None


class Matched(ResponseModel):
    """The samples of a user that equal given rows."""

    rows: int
    unmatched: int = Field(description="Rows that equal no sample of the user")
    handles: list[str] = Field(description="Of all samples that equal a row; for an erasure")


class OwnRound(ResponseModel):
    """What is held of a user of one round, as the user's own token reads it."""

    round: int
    samples: int


class UserRound(OwnRound):
    """What is held of a user of one round."""

    shards: list[int]


class UserStaged(ResponseModel):
    """What of a user waits for the next round."""

    uploads: int
    samples: int


class Quota(ResponseModel):
    """The most that one user may hold, staged samples included, when the user's own token uploads."""

    samples: int | None = Field(description="None: as many as fit")
    bytes: int | None = Field(description="On the disk; None: as many as fit")


class OwnUser(ResponseModel):
    """What is held of a user, as the user's own token reads it."""

    samples: int
    quarantined: int = Field(description="How many of the samples are in quarantine")
    rounds: list[OwnRound]
    staged: UserStaged
    bytes: int = Field(description="On the disk, staged samples included")
    quota: Quota


class User(ResponseModel):
    """What is held of a user."""

    samples: int
    quarantined: int = Field(description="How many of the samples are in quarantine")
    rounds: list[UserRound]
    staged: UserStaged
    bytes: int = Field(description="On the disk, staged samples included")
    quota: Quota
