"""The bodies of responses, made from the device. What belongs together is read under the device's lock."""

import json
from collections.abc import Mapping
from typing import Any

from cause.common.version import __version__
from cause.device.device import ENDLESS
from cause.device.retention import Retention
from cause.device.status import Degraded, RepairCost, Status, estimated, waiting
from cause.device.store.queries import BehindRow, RequestRow, RoundRow
from cause.engine.presets import system_text
from cause.engine.requests import Request as ForgetRequest
from cause.engine.samples import SegmentKey
from cause.service import schemas as s
from cause.service.access import inspects
from cause.service.paged_views import export, quarantine_page
from cause.service.responses import optional_timestamp, timestamp
from cause.service.searching import STEP, moment, search
from cause.service.service import Service
from cause.service.tokens import Token
from cause.service.trainer import TrainingProblem

TOO_LONG_S = 3600.0
"""Seconds for which shards may be missing from the vote before the status shows a problem."""


def _key(segment: SegmentKey | None) -> list[int] | None:
    return None if segment is None else list(segment)


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
        shard=number, active=active, samples=lineage.samples, head=_key(serving), newest=_key(lineage.last),
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


def rounds(service: Service, before: int | None, limit: int) -> s.Rounds:
    """Return a page of rounds, the newest first: at most `limit`, of those before round `before`."""
    newest = service.device.ledger.round
    first = newest if before is None else min(newest, before - 1)
    numbers = list(range(first, max(0, first - limit), -1))
    items = _rounds(service, numbers)
    return s.Rounds(items=items, next=numbers[-1] if numbers and numbers[-1] > 1 else None)


def round_(service: Service, number: int) -> s.Round | None:
    """Return one round; None if there is none with this number."""
    if not 1 <= number <= service.device.ledger.round:
        return None
    return _rounds(service, [number])[0]


def _rounds(service: Service, numbers: list[int]) -> list[s.Round]:
    device = service.device
    if not numbers:
        return []
    rows = service.home.queries.rounds(min(numbers), max(numbers))
    segments: dict[int, list[tuple[int, bool]]] = {}
    with device.lock:
        backlog = service.trainer.backlog()
        repairing = {"now": backlog.repair, "idle": backlog.with_fresh}.get(service.trainer.repair, ())
        busy = {*backlog.fresh, *repairing}
        states = set()
        for shard in device.ledger.shards():
            head = device.memory.head(shard)
            for segment in device.ledger.lineage(shard):
                done = head is not None and segment.key <= head.key
                segments.setdefault(segment.key.round, []).append((segment.count, done))
                if not done:
                    states.add((segment.key.round, shard in busy))
    shown = []
    for number in numbers:
        in_round = segments.get(number, [])
        row = rows.get(number, RoundRow())
        state = "empty" if not in_round else "training" if (number, True) in states else "trained"
        state = "waiting" if (number, False) in states else state
        shown.append(
            s.Round(
                round=number, closed=optional_timestamp(row.closed), users=row.users, samples=row.samples,
                retained=sum(count for count, _ in in_round), segments=len(in_round),
                trained=sum(done for _, done in in_round), rsn=row.retrained, state=state,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return shown


Span = tuple[float | None, float | None]
"""From when on and until when, in seconds since 1970; None: without a limit."""
ANY_TIME: Span = (None, None)


def _within(at: float, span: Span) -> bool:
    since, until = span
    return (since is None or at >= since) and (until is None or at < until)


def requests(
    service: Service, state: str | None, before: int | None, limit: int, *, id_: str | None = None,
    span: Span = ANY_TIME,
) -> s.Requests:  # fmt: skip
    """Return a page of requests, the newest first.

    Parameters
    ----------
    service
        The service.
    state
        Only requests in this state: accepted, in_effect, repaired, open (not repaired) or overdue; None for all.
    before
        The `next` of the page before; None for the first page.
    limit
        The most requests on the page.
    id_
        Only requests whose id begins like this.
    span
        Only requests that were received within these times.
    """
    now = service.home.clock()
    stored = state if state in ("accepted", "in_effect", "repaired") else None

    def fits(row: RequestRow) -> bool:
        unrepaired = stored is not None or state is None or row.repaired is None
        late = state != "overdue" or row.deadline < now
        return unrepaired and late and row.id.startswith(id_ or "") and _within(row.received, span)

    def fetch(below: int | None, most: int) -> list[RequestRow]:
        return service.home.queries.requests(stored, below, most)

    step = limit + 1 if stored == state and id_ is None and span == ANY_TIME else STEP
    rows, cursor = search(fetch, lambda row: row.number, fits, before, limit, step=step)
    return s.Requests(items=[_request(service, row) for row in rows], next=cursor)


def request(service: Service, id_: str) -> s.Request | None:
    """Return one request; None if there is none with this id."""
    row = service.home.queries.request(id_)
    return None if row is None else _request(service, row)


def request_for(token: Token, request: s.Request) -> s.Request | s.OwnRequest:
    """Return a request as a token may read it."""
    return request if inspects(token) else s.OwnRequest(**_own_fields(s.OwnRequest, request))


def plan_for(token: Token, plan: s.Plan) -> s.Plan | s.OwnPlan:
    """Return a plan as a token may read it."""
    return plan if inspects(token) else s.OwnPlan(**_own_fields(s.OwnPlan, plan))


def user_for(token: Token, user: s.User) -> s.User | s.OwnUser:
    """Return what is held of a user as a token may read it."""
    if inspects(token):
        return user
    rounds_ = [s.OwnRound(**_own_fields(s.OwnRound, round_)) for round_ in user.rounds]
    return s.OwnUser(**_own_fields(s.OwnUser, user) | {"rounds": rounds_})


def _own_fields(form: type[s.ResponseModel], whole: s.ResponseModel) -> dict[str, Any]:
    return {name: getattr(whole, name) for name in form.model_fields}


def _request(service: Service, row: RequestRow) -> s.Request:
    summary = json.loads(row.covered) if row.covered else {}
    state: Any = "accepted" if row.effective is None else "in_effect" if row.repaired is None else "repaired"
    return s.Request(
        id=row.id, state=state, received=timestamp(row.received), deadline=timestamp(row.deadline),
        effective=optional_timestamp(row.effective), repaired=optional_timestamp(row.repaired), samples=row.samples,
        staged=summary.get("staged", 0), shards=summary.get("shards", []), rsn_planned=summary.get("rsn"),
        receipts=service.home.receipts.numbers(row.id), note=None,
    )  # fmt: skip


def user(service: Service, name: str) -> s.User:
    """Return what is held of a user; zeros if nothing is."""
    device = service.device
    with device.lock:
        pieces: dict[int, list[tuple[int, int]]] = {}
        for stored in device.ledger.names_like(name):
            for number in device.ledger.rounds_of(stored):
                in_round = device.ledger.pieces_of(stored, number)
                pieces.setdefault(number, []).extend((segment.shard, len(held)) for segment, held in in_round)
        rounds_ = [
            s.UserRound(
                round=number, samples=sum(count for _, count in counts), shards=sorted({shard for shard, _ in counts})
            )
            for number, counts in sorted(pieces.items())
        ]
        staged = service.home.inbox.like(name)
        names = set(device.ledger.names_like(name))
        quarantined = sum(piece.samples for piece in device.ledger.quarantined() if piece.user in names)
        held = service.quotas.held(name)
    return s.User(
        samples=sum(round_.samples for round_ in rounds_),
        quarantined=quarantined,
        rounds=rounds_,
        staged=s.UserStaged(uploads=len(staged), samples=sum(upload.samples for upload in staged)),
        bytes=held.bytes,
        quota=s.Quota(samples=service.quotas.samples, bytes=service.quotas.bytes),
    )


def samples(service: Service, name: str, round_: int | None, before: int | None, limit: int) -> s.HeldSamples:
    """Return a page of a user's samples, the newest first.

    Parameters
    ----------
    service
        The service.
    name
        The user.
    round_
        Only samples of this round; None for all.
    before
        The `next` of the page before; None for the first page.
    limit
        The most samples on the page.
    """
    with service.device.lock:
        _, total = service.home.listing.page(name, round_=round_, most=0)
        end = total if before is None else min(before, total)
        start = max(0, end - limit)
        listed, _ = service.home.listing.page(name, round_=round_, first=start, most=end - start)
    items = [
        s.HeldSample(round=held.round, handle=held.handle, label=held.label, arrived=timestamp(held.arrived))
        for held in listed
    ]
    return s.HeldSamples(items=items[::-1], next=start or None)


def plan(service: Service, request: ForgetRequest) -> s.Plan:
    """Return what an erasure would delete and cost. Nothing is changed."""
    device = service.device
    with device.lock:
        held = bool(device.ledger.names_like(device.name_of(request.user)))
        plans = device.plan(request) if held or not request.everything else []
        staged = service.home.inbox.count(request)
        destroyed = [list(key) for plan in plans for key in device.memory.stored_of(plan.shard) if key >= plan.first]
        left = sum(
            sum(segment.count for segment in device.ledger.lineage(plan.shard).after(plan.restart)) - plan.forgotten
            for plan in plans
        )
    rsn = sum(plan.rsn for plan in plans)
    cost = estimated(sum(len(plan.replay) for plan in plans), max(rsn, left), rsn, service.model)
    return s.Plan(
        samples=sum(plan.forgotten for plan in plans),
        staged=staged,
        rsn=rsn,
        destroyed=destroyed,
        shards=[
            s.PlanShard(
                shard=plan.shard, samples=plan.forgotten, first=list(plan.first), restart=_key(plan.restart),
                replay=[list(segment) for segment in plan.replay], rsn=plan.rsn,
            )
            for plan in plans
        ],
        seconds=cost.seconds,
        joules=cost.joules,
        unknown=cost.unknown,
    )  # fmt: skip


def receipts(
    service: Service, before: int | None, limit: int, *, kind: str | None = None, id_: str | None = None,
    span: Span = ANY_TIME,
) -> s.Receipts:  # fmt: skip
    """Return a page of receipts, the newest first.

    Parameters
    ----------
    service
        The service.
    before
        The `next` of the page before; None for the first page.
    limit
        The most receipts on the page.
    kind
        Only receipts of this kind: effect, repair or restore; None for all.
    id_
        Only receipts of requests whose id begins like this.
    span
        Only receipts of what took effect, or was repaired, within these times.
    """

    def fetch(below: int | None, most: int) -> list[s.Receipt]:
        return [_receipt(number, body) for number, body in service.home.receipts.table.newest_bodies(below, most)]

    def fits(receipt: s.Receipt) -> bool:
        if (kind is not None and receipt.kind != kind) or not receipt.request.startswith(id_ or ""):
            return False
        return span == ANY_TIME or _within(moment(receipt.repaired or receipt.in_effect, "time") or 0.0, span)

    step = limit + 1 if kind is None and id_ is None and span == ANY_TIME else STEP
    items, cursor = search(fetch, lambda receipt: receipt.number, fits, before, limit, step=step)
    return s.Receipts(items=items, next=cursor)


def _receipt(number: int, body: bytes) -> s.Receipt:
    receipt = json.loads(body.split(b"\n", 1)[0])  # its signature is checked when it is verified, not here
    return s.Receipt(
        number=number, kind=receipt["kind"], request=receipt["request"], received=receipt["received"],
        in_effect=receipt["in_effect"], repaired=receipt.get("repaired"), samples=receipt["samples"],
        destroyed=sum(len(shard.get("destroyed", ())) for shard in receipt["shards"]),
        shards=[shard["shard"] for shard in receipt["shards"]],
    )  # fmt: skip


def energy(service: Service) -> s.Energy:
    """Return the energy meter of this machine and the estimated cost of the repair."""
    from cause.device.energy.find import find_meter

    device = service.device
    meter = find_meter(device.learner.device_type)
    with device.lock:
        segments = waiting(device)
    rsn = sum(segment.samples for segment in segments if segment.again)
    cost = estimated(len(segments), sum(segment.samples for segment in segments), rsn, service.model)
    return s.Energy(
        meter=meter.source if meter.unavailable is None else None,
        unavailable=meter.unavailable,
        calibrated=service.model is not None,
        repair=s.EnergyRepair(seconds=cost.seconds, joules=cost.joules, unknown=cost.unknown),
    )
