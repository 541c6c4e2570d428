"""The status of a device: what serves, what waits and what its repair will cost. Only reads."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cause.device.core import DeviceCore, home_of
from cause.device.energy.model import EnergyModel
from cause.device.retention import Retention, retention
from cause.device.schedule import margin_of
from cause.device.store.queries import BehindRow
from cause.engine.ledger import Quarantined
from cause.engine.rehearsal import rehearsed_count
from cause.engine.samples import SegmentKey


@dataclass(frozen=True)
class Waiting:
    """A segment that is to be trained: again, or for the first time."""

    segment: SegmentKey
    samples: int
    """Trained on, rehearsed ones included."""
    again: bool


@dataclass(frozen=True)
class ShardStatus:
    """One shard."""

    shard: int
    samples: int
    newest: SegmentKey
    """The segment that its head should have learned last."""
    serving: SegmentKey | None
    """The sub-model that votes; None when the shard has left the vote."""
    behind: int
    """Segments that wait to be trained."""
    since: float | None
    """When it fell behind (seconds since 1970)."""
    problem: str | None = None
    """The type of the error that its last training ended with; it is tried again at each replay."""
    environment: str | None = None
    """The environment that it is trained in, on nodes of a cluster; None: that of the device."""


@dataclass(frozen=True)
class RepairCost:
    """What repairing everything will take. Seconds and joules need a calibration of this machine."""

    trainings: int
    samples: int
    rsn: int
    seconds: float | None = None
    joules: float | None = None
    unknown: str | None = None
    """Why there are no seconds or joules."""


@dataclass(frozen=True)
class OpenRequest:
    """A request that is not yet repaired. Its samples are deleted already, unless `effective` is None."""

    id: str
    received: float
    effective: float | None
    deadline: float
    samples: int | None


@dataclass(frozen=True)
class Export:
    """A copy of the ensemble that was given away."""

    id: str
    made: float
    form: str
    heads: tuple[SegmentKey, ...]
    tainted: float | None
    """When a sample that it had learned was forgotten: its users should take a new export."""


@dataclass(frozen=True)
class Degraded:
    """Shards that hold samples and do not vote."""

    not_voting: tuple[int, ...]
    of: int
    """How many shards hold samples."""
    since: float | None
    """When the first of them fell behind (seconds since 1970); None while their first training is under way."""


@dataclass(frozen=True)
class Status:
    """The status of a device."""

    round: int
    samples: int
    shards: tuple[ShardStatus, ...]
    repair: RepairCost
    sub_models: int
    slots: int
    memory_bytes: int
    memory_budget_bytes: int
    storage_bytes: int
    storage_budget_bytes: int | None
    requests: tuple[OpenRequest, ...]
    exports: tuple[Export, ...]
    retention: Retention
    """What the home deletes next because of its age, and when."""
    quarantined: tuple[Quarantined, ...] = ()
    """Samples that fail alone: retained, but no part of any sub-model. Only for who may know the users."""
    clock: str | None = None
    """Why the wall clock is not believed, so that nothing is destroyed by its age; None if it is."""
    notes: tuple[str, ...] = ()
    """What a user should know of the learner, as that less of its network can be pruned than the system asks for."""

    active_shards: int = 0
    """How many shards take new data in the next round; with a shard controller fewer as rounds go by."""
    most_shards: int = 0
    """How many shards there can be: the setting `shards`."""
    overdue: int = 0
    """Requests past their deadline that are not repaired; their samples are deleted all the same."""
    due_soon: int = 0
    """Requests that are not repaired and whose deadline is near: within a week, or a quarter of the time allowed."""

    @property
    def voting(self) -> int:
        """The shards that vote."""
        return sum(shard.serving is not None for shard in self.shards)

    @property
    def degraded(self) -> "Degraded | None":
        """The shards that hold samples and do not vote; None if there are none."""
        silent = [shard for shard in self.shards if shard.serving is None]
        since = min((shard.since for shard in silent if shard.since is not None), default=None)
        return Degraded(tuple(shard.shard for shard in silent), len(self.shards), since) if silent else None

    def as_dict(self) -> dict[str, Any]:
        """Return the status for JSON."""
        degraded = self.degraded
        return asdict(self) | {"voting": self.voting, "degraded": None if degraded is None else asdict(degraded)}


def status(device: DeviceCore, model: EnergyModel | None = None) -> Status:
    """Return the status of a device with a home; with a calibration its costs are in seconds and joules, too."""
    with device.lock:
        device.complete_sums()
        return _of_one_moment(device, model)


def _of_one_moment(device: DeviceCore, model: EnergyModel | None) -> Status:
    home = home_of(device, "status")
    with home.database.reading():
        behind, requests, exports = home.queries.behind(), home.queries.open_requests(), home.queries.exports()
        stored_bytes, expires = home.stored_bytes, retention(home)
        notes = home.database.get("learner_notes")
    now, near = home.clock(), margin_of(home.deadline_s)
    deadlines = [request.deadline for request in requests]
    shards = tuple(_shard(device, shard, behind) for shard in device.ledger.shards())
    return Status(
        round=device.ledger.round,
        samples=sum(shard.samples for shard in shards),
        shards=shards,
        repair=cost(waiting(device), model),
        sub_models=len(device.memory),
        slots=device.memory.slots,
        memory_bytes=device.memory.used_bytes,
        memory_budget_bytes=device.memory.budget_bytes,
        storage_bytes=stored_bytes,
        storage_budget_bytes=home.storage_bytes,
        requests=tuple(OpenRequest(*row) for row in requests),
        exports=tuple(Export(*row) for row in exports),
        quarantined=tuple(device.ledger.quarantined()),
        clock=home.time.doubt(),
        retention=expires,
        active_shards=device.controller.at(device.ledger.round + 1),
        most_shards=device.controller.shards,
        overdue=sum(deadline < now for deadline in deadlines),
        due_soon=sum(now <= deadline < now + near for deadline in deadlines),
        notes=tuple(device.learner.notes if notes is None else json.loads(notes)),
    )


def waiting(device: DeviceCore) -> list[Waiting]:
    """Return the segments that a repair would train, in order."""
    with device.lock:
        return [segment for shard in device.ledger.shards() for segment in _waiting(device, shard)]


def _waiting(device: DeviceCore, shard: int) -> Iterator[Waiting]:
    lineage, head = device.ledger.lineage(shard), device.memory.head(shard)
    after = None if head is None else head.key
    earlier = lineage.samples_upto(after)
    for segment in lineage.after(after):
        rehearsed = rehearsed_count(device.engine.rehearsal.share, segment.count, earlier)
        yield Waiting(segment.key, segment.count + rehearsed, segment.trained)
        earlier += segment.count


def cost(segments: Sequence[Waiting], model: EnergyModel | None = None) -> RepairCost:
    """Return what training these segments costs."""
    rsn = sum(segment.samples for segment in segments if segment.again)
    return estimated(len(segments), sum(segment.samples for segment in segments), rsn, model)


def estimated(trainings: int, samples: int, rsn: int, model: EnergyModel | None) -> RepairCost:
    """Return a cost in samples, with seconds and joules if there is a calibration.

    Parameters
    ----------
    trainings
        How many segments are trained.
    samples
        On how many samples.
    rsn
        How many of these were trained on before.
    model
        A calibration; None leaves seconds and joules unknown.
    """
    if model is None:
        return RepairCost(trainings, samples, rsn, unknown="no calibration was given")
    joules = model.joules(samples, trainings) if model.joules_line is not None else None
    unknown = None if model.joules_line is not None else model.unavailable or "no meter"
    return RepairCost(trainings, samples, rsn, model.seconds(samples, trainings), joules, unknown)


def _shard(device: DeviceCore, shard: int, rows: Mapping[int, BehindRow]) -> ShardStatus:
    lineage, head = device.ledger.lineage(shard), device.memory.head(shard)
    serving, newest = None if head is None else head.key, lineage.last
    assert newest is not None
    behind = len(lineage.after(serving))
    since, problem = rows.get(shard, (None, None)) if behind else (None, None)
    environment = device.memory.environments.get(shard)
    return ShardStatus(shard, lineage.samples, newest, serving, behind, since, problem, environment)
