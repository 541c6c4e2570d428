"""The device as answers show it. Each view is of one moment."""

import json
from collections.abc import Sequence
from typing import Any

from cause.common.version import __version__
from cause.device.device import ENDLESS
from cause.device.retention import Retention
from cause.device.status import Degraded, RepairCost, Status, estimated, waiting
from cause.device.store.listing import page
from cause.device.store.queries import RequestRow, RoundRow
from cause.engine.ledger import Quarantined
from cause.engine.presets import system_text
from cause.engine.requests import Request as Asked
from cause.engine.samples import SegmentKey
from cause.service import schemas as s
from cause.service.responses import maybe, moment
from cause.service.service import Service
from cause.service.trainer import Problem

TOO_LONG_S = 3600.0
"""For how long shards may leave the vote before that is a problem."""


def key(segment: SegmentKey | None) -> list[int] | None:
    return None if segment is None else list(segment)


def status(service: Service, *, names: bool) -> s.Status:
    """At a glance; `names` for who may know the users."""
    device, home, trainer = service.device, service.home, service.trainer
    with device.lock:
        found = device.status(service.model)
        uploads = home.inbox.uploads()
        behind = device.waiting()
    rows = home.queries.retrained()
    now, step, form = home.clock(), trainer.now, service.reader.form
    endless = found.slots >= ENDLESS
    deadlines = [request.deadline for request in found.requests]
    return s.Status(
        version=__version__,
        system=system_text(device.system),
        round=found.round,
        samples=found.samples,
        classes=device.classes,
        voting=found.voting,
        active_shards=device.controller.at(max(1, found.round)),
        inputs=s.Inputs(values=form.values, shape=None if form.shape is None else list(form.shape)),
        staged=s.Staged(
            uploads=len(uploads),
            users=len({upload.user for upload in uploads}),
            samples=sum(upload.samples for upload in uploads),
            bytes=sum(upload.bytes for upload in uploads),
        ),
        memory=s.Memory(
            sub_models=found.sub_models,
            slots=None if endless else found.slots,
            used_bytes=found.memory_bytes,
            budget_bytes=None if endless else found.memory_budget_bytes,
        ),
        storage=s.Storage(used_bytes=found.storage_bytes, budget_bytes=found.storage_budget_bytes),
        rsn=s.Rsn(
            total=sum(samples for _, samples in rows),
            by_round=[s.RoundRsn(round=round_, rsn=samples) for round_, samples in rows],
        ),
        repair=_repair(found.repair, behind),
        requests=s.OpenRequests(
            open=len(found.requests),
            overdue=found.overdue,
            due_soon=found.due_soon,
            next_deadline=maybe(min(deadlines, default=None)),
        ),
        degraded=_degraded(found.degraded),
        retention=_retention(found.retention),
        training=None if step is None else _training(step),
        problem=_problem(trainer.problem, found, now, names=names),
        quarantine=_quarantine(found.quarantined, names),
        clock=found.clock,
        exports=[
            s.Export(id=each.id, made=moment(each.made), form=each.form, tainted=maybe(each.tainted))
            for each in found.exports
        ],
        schedule=s.Schedule(
            close_every_s=service.settings.close_every_s,
            close_samples=service.settings.close_samples,
            repair=trainer.repair,  # type: ignore[arg-type]
        ),
    )


def _problem(problem: Problem | None, found: Status, now: float, *, names: bool) -> str | None:
    """Why training fails; or else what waits for too long."""
    if problem is not None:
        return problem.text if names else problem.kind
    if found.overdue:
        return f"{found.overdue} requests are past their deadline and not repaired: repair now"
    silent = found.degraded
    if silent is not None and silent.since is not None and now - silent.since > TOO_LONG_S:
        return f"{len(silent.not_voting)} of {silent.of} shards have not voted for more than an hour: repair now"
    return None


def _degraded(found: Degraded | None) -> s.Degraded | None:
    if found is None:
        return None
    return s.Degraded(not_voting=list(found.not_voting), of=found.of, since=maybe(found.since))


def _retention(found: Retention) -> s.Retention:
    soon, later = found.next_round, None
    if found.next is not None:
        own = found.next
        later = s.ExpiringAt(samples=own.samples, users=own.users, rounds=list(own.rounds), at=moment(own.at))
    return s.Retention(
        retain=found.retain,
        next_round=s.Expiring(samples=soon.samples, users=soon.users, rounds=list(soon.rounds)),
        next=later,
    )


def quarantine(service: Service, *, names: bool) -> s.Quarantine:
    """What is in quarantine; `names` for who may know the users."""
    with service.device.lock:
        found = service.device.ledger.quarantined()
    return _quarantine(found, names)


def _quarantine(found: Sequence[Quarantined], names: bool) -> s.Quarantine:
    items = [
        s.QuarantinedUpload(
            upload=each.upload or 0, user=each.user if names else None, round=each.round, shard=each.segment.shard,
            samples=each.samples, verdict=each.verdict, since=maybe(each.since),
        )
        for each in found
    ]  # fmt: skip
    uploads = len({each.upload for each in found})
    return s.Quarantine(uploads=uploads, samples=sum(each.samples for each in found), items=items)


def _repair(cost: RepairCost, behind: list[int]) -> s.Repair:
    return s.Repair(
        waiting=behind, trainings=cost.trainings, samples=cost.samples, rsn=cost.rsn, seconds=cost.seconds,
        joules=cost.joules, unknown=cost.unknown,
    )  # fmt: skip


def _training(step: Any) -> s.Training:
    return s.Training(
        segment=list(step.segment), epoch=step.epoch, epochs=step.epochs, done=step.done, total=step.total
    )


def shards(service: Service) -> list[s.Shard]:
    device = service.device
    found = []
    with device.lock:
        waiting_since = service.home.queries.behind()
        active = device.controller.at(max(1, device.ledger.round))
        for shard in device.ledger.shards():
            lineage, head = device.ledger.lineage(shard), device.memory.head(shard)
            serving = None if head is None else head.key
            stored = set(device.memory.stored_of(shard))
            behind = len(lineage.after(serving))
            since, problem = waiting_since.get(shard, (None, None)) if behind else (None, None)
            found.append(
                s.Shard(
                    shard=shard,
                    active=shard < active,
                    samples=lineage.samples,
                    head=key(serving),
                    newest=key(lineage.last),
                    behind=behind,
                    since=maybe(since),
                    problem=problem,
                    segments=[
                        s.ShardSegment(
                            segment=list(each.key), samples=each.count, trained=each.trained, stored=each.key in stored,
                            head=each.key == serving,
                        )
                        for each in lineage
                    ],
                )
            )  # fmt: skip
    return found


def sub_models(service: Service) -> s.SubModels:
    device = service.device
    with device.lock:
        heads = {head.key for head in device.heads().values()}
        found = []
        for each in device.memory.stored():
            kept = device.memory[each]
            found.append(
                s.SubModel(
                    segment=list(each), size_bytes=kept.size_bytes, slot=device.memory.slot_of(each),
                    head=each in heads, samples=device.ledger.lineage(each.shard).samples_upto(each),
                    environment=kept.environment,
                )
            )  # fmt: skip
    return s.SubModels(sub_models=found)


def rounds(service: Service, before: int | None, limit: int) -> s.Rounds:
    newest = service.device.ledger.round
    first = newest if before is None else min(newest, before - 1)
    wanted = list(range(first, max(0, first - limit), -1))
    items = _rounds(service, wanted)
    return s.Rounds(items=items, next=wanted[-1] if wanted and wanted[-1] > 1 else None)


def round_(service: Service, number: int) -> s.Round | None:
    if not 1 <= number <= service.device.ledger.round:
        return None
    return _rounds(service, [number])[0]


def _rounds(service: Service, wanted: list[int]) -> list[s.Round]:
    device = service.device
    if not wanted:
        return []
    rows = service.home.queries.rounds(min(wanted), max(wanted))
    segments: dict[int, list[tuple[int, bool]]] = {}
    with device.lock:
        behind = service.trainer.behind()
        also = {"now": behind.repair, "idle": behind.with_fresh}.get(service.trainer.repair, ())
        busy = {*behind.fresh, *also}
        states = set()
        for shard in device.ledger.shards():
            head = device.memory.head(shard)
            for segment in device.ledger.lineage(shard):
                done = head is not None and segment.key <= head.key
                segments.setdefault(segment.key.round, []).append((segment.count, done))
                if not done:
                    states.add((segment.key.round, shard in busy))
    found = []
    for number in wanted:
        own = segments.get(number, [])
        row = rows.get(number, RoundRow())
        state = "empty" if not own else "training" if (number, True) in states else "trained"
        state = "waiting" if (number, False) in states else state
        found.append(
            s.Round(
                round=number, closed=maybe(row.closed), users=row.users, samples=row.samples,
                retained=sum(count for count, _ in own), segments=len(own), trained=sum(done for _, done in own),
                rsn=row.retrained, state=state,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return found


def requests(service: Service, state: str | None, before: int | None, limit: int) -> s.Requests:
    rows = service.home.queries.requests(state, before, limit + 1)
    items = [_request(service, row) for row in rows[:limit]]
    return s.Requests(items=items, next=rows[limit - 1].number if len(rows) > limit else None)


def request(service: Service, id_: str) -> s.Request | None:
    row = service.home.queries.request(id_)
    return None if row is None else _request(service, row)


def _request(service: Service, row: RequestRow) -> s.Request:
    covered = json.loads(row.covered) if row.covered else {}
    state: Any = "accepted" if row.effective is None else "in_effect" if row.repaired is None else "repaired"
    return s.Request(
        id=row.id, state=state, received=moment(row.received), deadline=moment(row.deadline),
        effective=maybe(row.effective), repaired=maybe(row.repaired), samples=row.samples,
        staged=covered.get("staged", 0), shards=covered.get("shards", []), rsn_planned=covered.get("rsn"),
        receipts=service.home.receipts.numbers(row.id), note=None,
    )  # fmt: skip


def user(service: Service, name: str) -> s.User:
    device = service.device
    with device.lock:
        pieces: dict[int, list[tuple[int, int]]] = {}
        for stored in device.ledger.names_like(name):
            for number in device.ledger.rounds_of(stored):
                own = device.ledger.pieces_of(stored, number)
                pieces.setdefault(number, []).extend((segment.shard, len(held)) for segment, held in own)
        rounds_ = [
            s.UserRound(
                round=number, samples=sum(count for _, count in own), shards=sorted({shard for shard, _ in own})
            )
            for number, own in sorted(pieces.items())
        ]
        staged = service.home.inbox.like(name)
        like = set(device.ledger.names_like(name))
        aside = sum(each.samples for each in device.ledger.quarantined() if each.user in like)
    return s.User(
        samples=sum(each.samples for each in rounds_),
        quarantined=aside,
        rounds=rounds_,
        staged=s.UserStaged(uploads=len(staged), samples=sum(upload.samples for upload in staged)),
    )


def samples(service: Service, name: str, round_: int | None, before: int | None, limit: int) -> s.HeldSamples:
    """A page of a user's samples, the newest first."""
    with service.device.lock:
        _, total = page(service.home, name, round_=round_, most=0)
        end = total if before is None else min(before, total)
        start = max(0, end - limit)
        found, _ = page(service.home, name, round_=round_, first=start, most=end - start)
    items = [s.HeldSample(round=e.round, handle=e.handle, label=e.label, arrived=moment(e.arrived)) for e in found]
    return s.HeldSamples(items=items[::-1], next=start or None)


def plan(service: Service, asked: Asked) -> s.Plan:
    device = service.device
    with device.lock:
        held = bool(device.ledger.names_like(device.name_of(asked.user)))
        found = device.plan(asked) if held or not asked.everything else []
        staged = service.home.inbox.count(asked)
        destroyed = [
            list(each) for shard in found for each in device.memory.stored_of(shard.shard) if each >= shard.first
        ]
        left = sum(
            sum(segment.count for segment in device.ledger.lineage(shard.shard).after(shard.restart)) - shard.forgotten
            for shard in found
        )
    rsn = sum(shard.rsn for shard in found)
    cost = estimated(sum(len(shard.replay) for shard in found), max(rsn, left), rsn, service.model)
    return s.Plan(
        samples=sum(shard.forgotten for shard in found),
        staged=staged,
        rsn=rsn,
        destroyed=destroyed,
        shards=[
            s.PlanShard(
                shard=each.shard, samples=each.forgotten, first=list(each.first), restart=key(each.restart),
                replay=[list(segment) for segment in each.replay], rsn=each.rsn,
            )
            for each in found
        ],
        seconds=cost.seconds,
        joules=cost.joules,
        unknown=cost.unknown,
    )  # fmt: skip


def receipts(service: Service, before: int | None, limit: int) -> s.Receipts:
    rows = service.home.receipts.table.newest_bodies(before, limit + 1)
    items = [_receipt(number, body) for number, body in rows[:limit]]
    return s.Receipts(items=items, next=rows[limit - 1][0] if len(rows) > limit else None)


def _receipt(number: int, body: bytes) -> s.Receipt:
    told = json.loads(body.split(b"\n", 1)[0])  # signed by this device, checked when it is verified
    return s.Receipt(
        number=number, kind=told["kind"], request=told["request"], received=told["received"],
        in_effect=told["in_effect"], repaired=told.get("repaired"), samples=told["samples"],
        destroyed=sum(len(shard.get("destroyed", ())) for shard in told["shards"]),
        shards=[shard["shard"] for shard in told["shards"]],
    )  # fmt: skip


def energy(service: Service) -> s.Energy:
    from cause.device.energy.find import find_meter

    device = service.device
    meter = find_meter(device.learner.device_type)
    with device.lock:
        segments = waiting(device)
    rsn = sum(each.samples for each in segments if each.again)
    cost = estimated(len(segments), sum(each.samples for each in segments), rsn, service.model)
    return s.Energy(
        meter=meter.source if meter.unavailable is None else None,
        unavailable=meter.unavailable,
        calibrated=service.model is not None,
        repair=s.EnergyRepair(seconds=cost.seconds, joules=cost.joules, unknown=cost.unknown),
    )
