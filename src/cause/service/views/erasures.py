"""The bodies of requests and plans."""

import json
from typing import Any

from cause.device.status import estimated
from cause.device.store.queries import RequestRow
from cause.engine.requests import Request as ForgetRequest
from cause.service import schemas as s
from cause.service.access import inspects
from cause.service.filtered_pages import STEP, search
from cause.service.responses import optional_timestamp, timestamp
from cause.service.service import Service
from cause.service.tokens import Token
from cause.service.views.shared import ANY_TIME, Span, key_list, own_fields, within


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
        return unrepaired and late and row.id.startswith(id_ or "") and within(row.received, span)

    def fetch(below: int | None, most: int) -> list[RequestRow]:
        return service.home.queries.requests(stored, below, most)

    step = limit + 1 if stored == state and id_ is None and span == ANY_TIME else STEP
    rows, cursor = search(fetch, lambda row: row.number, fits, before, limit, step=step)
    return s.Requests(items=[request_of(service, row) for row in rows], next=cursor)


def request(service: Service, id_: str) -> s.Request | None:
    """Return one request; None if there is none with this id."""
    row = service.home.queries.request(id_)
    return None if row is None else request_of(service, row)


def request_for(token: Token, request: s.Request) -> s.Request | s.OwnRequest:
    """Return a request as a token may read it."""
    return request if inspects(token) else s.OwnRequest(**own_fields(s.OwnRequest, request))


def plan_for(token: Token, plan: s.Plan) -> s.Plan | s.OwnPlan:
    """Return a plan as a token may read it."""
    return plan if inspects(token) else s.OwnPlan(**own_fields(s.OwnPlan, plan))


def request_of(service: Service, row: RequestRow) -> s.Request:
    """Return the body of a request, of its row in the ledger."""
    summary = json.loads(row.covered) if row.covered else {}
    state: Any = "accepted" if row.effective is None else "in_effect" if row.repaired is None else "repaired"
    return s.Request(
        id=row.id, state=state, received=timestamp(row.received), deadline=timestamp(row.deadline),
        effective=optional_timestamp(row.effective), repaired=optional_timestamp(row.repaired), samples=row.samples,
        staged=summary.get("staged", 0), shards=summary.get("shards", []), rsn_planned=summary.get("rsn"),
        receipts=service.home.receipts.numbers(row.id), note=None,
    )  # fmt: skip


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
                shard=plan.shard, samples=plan.forgotten, first=list(plan.first), restart=key_list(plan.restart),
                replay=[list(segment) for segment in plan.replay], rsn=plan.rsn,
            )
            for plan in plans
        ],
        seconds=cost.seconds,
        joules=cost.joules,
        unknown=cost.unknown,
    )  # fmt: skip
