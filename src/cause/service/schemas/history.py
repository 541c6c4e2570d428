"""Accuracy, energy and what a device did over time."""

from typing import Literal

from pydantic import Field

from cause.service.schemas.base import ResponseModel, Segment, Time


class ClassAccuracy(ResponseModel):
    """The accuracy on the samples of one class."""

    label: int
    samples: int
    accuracy: float


class HeadAccuracy(ResponseModel):
    """The accuracy of one head alone."""

    shard: int
    segment: Segment
    accuracy: float


class Evaluation(ResponseModel):
    """The accuracy on labelled samples."""

    id: int
    at: Time
    round: int
    samples: int
    accuracy: float
    voters: int
    classes: list[ClassAccuracy]
    heads: list[HeadAccuracy]


class Evaluations(ResponseModel):
    """A page of evaluations."""

    items: list[Evaluation]
    next: int | None


class Baseline(ResponseModel):
    """What one of the paper's systems would have retrained."""

    system: str
    rsn: int | None = None
    seconds: float | None = None
    joules: float | None = None
    rsn_per_round: list[int] | None = None
    floor_rsn: int | None = None
    unknown: str | None = None


class Baselines(ResponseModel):
    """The paper's systems on this device's history."""

    state: Literal["computing", "ready", "failed"]
    round: int
    rsn: int
    seconds: float | None = None
    joules: float | None = None
    energy_unknown: str | None = None
    systems: list[Baseline]
    detail: str | None = None


class EnergyRepair(ResponseModel):
    """The estimated cost of the repair."""

    seconds: float | None
    joules: float | None
    unknown: str | None


class Energy(ResponseModel):
    """The energy meter, and the estimated cost of the repair."""

    meter: str | None
    unavailable: str | None
    calibrated: bool
    repair: EnergyRepair


class HistoryPoint(ResponseModel):
    """The device at one moment."""

    at: Time
    round: int
    shards: int
    voting: int
    sub_models: int
    memory_bytes: int
    storage_bytes: int
    rsn: int = Field(description="Samples that were trained again so far")
    joules: float | None


class HistoryEvaluation(ResponseModel):
    """The accuracy at one moment, and how many shards voted then."""

    id: int
    at: Time
    round: int
    samples: int
    accuracy: float
    voters: int


class HistoryErasures(ResponseModel):
    """Erasures that took effect at one moment, or near to each other."""

    at: Time
    requests: int
    samples: int


class HistoryRound(ResponseModel):
    """A round of which samples are held: when it was closed, and what was trained again while it was the newest."""

    round: int
    at: Time
    samples: int
    rsn: int
    joules: float | None


class History(ResponseModel):
    """The device over time, the oldest first. Points are kept since the home was first served by this version."""

    since: Time | None
    until: Time
    evaluations: list[HistoryEvaluation]
    erasures: list[HistoryErasures]
    rounds: list[HistoryRound]
    points: list[HistoryPoint]
    energy_unknown: str | None
