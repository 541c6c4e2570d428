"""The bodies of receipts and of energy."""

import json

from cause.device.status import estimated, waiting
from cause.service import schemas as s
from cause.service.filtered_pages import STEP, moment, search
from cause.service.service import Service
from cause.service.views.shared import ANY_TIME, Span, within


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
        return span == ANY_TIME or within(moment(receipt.repaired or receipt.in_effect, "time") or 0.0, span)

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
