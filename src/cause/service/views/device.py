"""The bodies of status, shards and sub-models: what a device holds, does and waits for, read under its lock."""

from collections.abc import Mapping
from typing import Any

from cause.common.version import __version__
from cause.device.device import ENDLESS
from cause.device.retention import Retention
from cause.device.status import Degraded, RepairCost, Status
from cause.device.store.queries import BehindRow
from cause.engine.presets import system_text
from cause.service import schemas as s
from cause.service.paged_views import export, quarantine_page
from cause.service.responses import optional_timestamp, timestamp
from cause.service.service import Service
from cause.service.trainer import TrainingProblem
from cause.service.views.shared import key_list

TOO_LONG_S = 3600.0
"""Seconds for which shards may be missing from the vote before the status shows a problem."""


def status(service: Service, limit: int | None = None, *, names: bool) -> s.Status:
    """Return the status of the device.

    Parameters
    ----------
    service
        The service.
    limit
        The most entries of the lists that grow: rounds with retrained samples and exports (the newest), quarantine (the
        first); None for all.
    names
        Whether messages may contain user ids.
    """
    device, home, trainer = service.device, service.home, service.trainer
    with device.lock:
        state = device.status(service.model)
        uploads = home.inbox.uploads()
        behind = device.waiting()
    rows = home.queries.retrained()
    now, step, layout = home.clock(), trainer.progress, service.reader.layout
    endless = state.slots >= ENDLESS
    deadlines = [request.deadline for request in state.requests]
    return s.Status(
        name=service.name,
        version=__version__,
        system=system_text(device.system),
        round=state.round,
        samples=state.samples,
        classes=device.classes,
        voting=state.voting,
        active_shards=device.controller.at(max(1, state.round)),
        inputs=s.Inputs(values=layout.values, shape=None if layout.shape is None else list(layout.shape)),
        staged=s.Staged(
            uploads=len(uploads),
            users=len({upload.user for upload in uploads}),
            samples=sum(upload.samples for upload in uploads),
            bytes=sum(upload.bytes for upload in uploads),
        ),
        memory=s.Memory(
            sub_models=state.sub_models,
            slots=None if endless else state.slots,
            used_bytes=state.memory_bytes,
            budget_bytes=None if endless else state.memory_budget_bytes,
        ),
        storage=s.Storage(used_bytes=state.storage_bytes, budget_bytes=state.storage_budget_bytes),
        rsn=s.Rsn(
            total=sum(samples for _, samples in rows),
            by_round=[s.RoundRsn(round=round_, rsn=samples) for round_, samples in rows[_newest(limit)]],
        ),
        repair=_repair(state.repair, behind),
        requests=s.OpenRequests(
            open=len(state.requests),
            overdue=state.overdue,
            due_soon=state.due_soon,
            next_deadline=optional_timestamp(min(deadlines, default=None)),
        ),
        degraded=_degraded(state.degraded),
        retention=_retention(state.retention),
        training=None if step is None else _training(step),
        problem=_problem(trainer.problem, state, now, names=names),
        quarantine=quarantine_page(state.quarantined, None, limit, names=names),
        clock=state.clock,
        exports=[export(row) for row in state.exports[_newest(limit)]],
        tainted_exports=sum(row.tainted is not None for row in state.exports),
        schedule=s.Schedule(
            close_every_s=service.settings.close_every_s,
            close_samples=service.settings.close_samples,
            repair=trainer.repair,  # type: ignore[arg-type]
        ),
        expected_accuracy=_expected_accuracy(service),
    )


def _newest(limit: int | None) -> slice:
    return slice(None) if limit is None else slice(-limit, None)


def _expected_accuracy(service: Service) -> s.ExpectedAccuracy | None:
    estimate = service.expected_accuracy.get()
    if estimate is None:
        return None
    return s.ExpectedAccuracy(
        accuracy=estimate.accuracy, samples=estimate.samples, correct=estimate.correct, held=estimate.held,
        at=timestamp(estimate.at),
    )  # fmt: skip


def _problem(problem: TrainingProblem | None, state: Status, now: float, *, names: bool) -> str | None:
    """Return why training fails, or else what has waited for too long, or None."""
    if problem is not None:
        return problem.text if names else problem.kind
    if state.overdue:
        return f"{state.overdue} requests are past their deadline and not repaired: repair now"
    degraded = state.degraded
    if degraded is not None and degraded.since is not None and now - degraded.since > TOO_LONG_S:
        return f"{len(degraded.not_voting)} of {degraded.of} shards have not voted for more than an hour: repair now"
    return None


def _degraded(degraded: Degraded | None) -> s.Degraded | None:
    if degraded is None:
        return None
    since = optional_timestamp(degraded.since)
    return s.Degraded(not_voting=list(degraded.not_voting), of=degraded.of, since=since)


def _retention(retention: Retention) -> s.Retention:
    in_round, by_age = retention.next_round, retention.next
    return s.Retention(
        retain=retention.retain,
        next_round=s.Expiring(samples=in_round.samples, users=in_round.users, rounds=list(in_round.rounds)),
        next=None
        if by_age is None
        else s.ExpiringAt(
            samples=by_age.samples, users=by_age.users, rounds=list(by_age.rounds), at=timestamp(by_age.at)
        ),
    )


def _repair(cost: RepairCost, behind: list[int]) -> s.Repair:
    return s.Repair(
        waiting=behind, trainings=cost.trainings, samples=cost.samples, rsn=cost.rsn, seconds=cost.seconds,
        joules=cost.joules, unknown=cost.unknown,
    )  # fmt: skip


def _training(step: Any) -> s.Training:
    return s.Training(
        segment=list(step.segment), epoch=step.epoch, epochs=step.epochs, done=step.done, total=step.total
    )


def shards(service: Service, after: int | None = None, limit: int | None = None) -> s.Shards:
    """Return shards that have samples, with their segments, by number.

    Parameters
    ----------
    service
        The service.
    after
        Only shards with a higher number: the `next` of the page before.
    limit
        The most shards on the page; None for all.
    """
    device = service.device
    with device.lock:
        numbers = [shard for shard in device.ledger.shards() if after is None or shard > after]
        page = numbers if limit is None else numbers[:limit]
        waiting_since = service.home.queries.behind()
        active = device.controller.active(max(1, device.ledger.round))
        shown = [_shard(service, shard, shard in active, waiting_since) for shard in page]
    return s.Shards(shards=shown, next=page[-1] if len(page) < len(numbers) else None)


def shard(service: Service, number: int) -> s.Shard | None:
    """Return one shard with its segments; None if it has no samples."""
    page = shards(service, number - 1, 1).shards
    return page[0] if page and page[0].shard == number else None


def _shard(service: Service, number: int, active: bool, waiting_since: Mapping[int, BehindRow]) -> s.Shard:
    device = service.device
    lineage, head = device.ledger.lineage(number), device.memory.head(number)
    serving = None if head is None else head.key
    stored = set(device.memory.stored_of(number))
    behind = len(lineage.after(serving))
    since, problem = waiting_since.get(number, (None, None)) if behind else (None, None)
    return s.Shard(
        shard=number, active=active, samples=lineage.samples, head=key_list(serving), newest=key_list(lineage.last),
        behind=behind, since=optional_timestamp(since), problem=problem,
        environment=device.memory.environments.get(number),
        segments=[
            s.ShardSegment(
                segment=list(segment.key), samples=segment.count, trained=segment.trained,
                stored=segment.key in stored, head=segment.key == serving,
            )
            for segment in lineage
        ],
    )  # fmt: skip


def sub_models(service: Service, after: int | None = None, limit: int | None = None) -> s.SubModels:
    """Return stored sub-models by slot.

    Parameters
    ----------
    service
        The service.
    after
        Only sub-models in higher slots: the `next` of the page before.
    limit
        The most sub-models on the page; None for all.
    """
    device = service.device
    with device.lock:
        heads = {head.key for head in device.heads().values()}
        slots = sorted((device.memory.slot_of(key), key) for key in device.memory.stored())
        slots = [(slot, key) for slot, key in slots if after is None or slot > after]
        page = slots if limit is None else slots[:limit]
        shown = []
        for slot, key in page:
            sub_model = device.memory[key]
            shown.append(
                s.SubModel(
                    segment=list(key), size_bytes=sub_model.size_bytes, slot=slot, head=key in heads,
                    samples=device.ledger.lineage(key.shard).samples_upto(key), environment=sub_model.environment,
                )
            )  # fmt: skip
    return s.SubModels(sub_models=shown, next=page[-1][0] if len(page) < len(slots) else None)
