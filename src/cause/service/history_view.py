"""The body of `GET /v1/history`: what the home's tables and the service's own file tell of the past."""

import json
from collections.abc import Sequence
from typing import TypeVar

from cause.device.status import estimated
from cause.service import schemas as s
from cause.service.history import Point
from cause.service.responses import optional_timestamp, timestamp
from cause.service.service import Service

T = TypeVar("T")
STEP = 500
MOST_REQUESTS = 20_000
"""The newest requests that are counted; a device with more of them within the time shows only these."""
MOST_ROUNDS = 2_000


def history(service: Service, since: float | None, until: float | None, points: int) -> s.History:
    """Return the device over time, the oldest first.

    Parameters
    ----------
    service
        The service.
    since, until
        Only from then on and until then, in seconds since 1970; None without a limit.
    points
        The most entries of each list; others are left out evenly, and erasures near to each other are counted together.
    """
    end = service.home.clock() if until is None else until
    kept = service.history.points(since, until)
    if until is None:
        kept.append(service.recorder.now())
    return s.History(
        since=optional_timestamp(since),
        until=timestamp(end),
        evaluations=thinned(_evaluations(service, since, until), points),
        erasures=_erasures(service, since, end, points),
        rounds=thinned(_rounds(service, since, until), points),
        points=[_point(service, point) for point in thinned(kept, points)],
        energy_unknown=estimated(0, 1, 1, service.model).unknown,
    )


def thinned(items: Sequence[T], most: int) -> list[T]:
    """Return at most so many items, evenly chosen; the first and the last are among them.

    >>> thinned(range(10), 4), thinned([1, 2], 4), thinned(range(5), 1)
    ([0, 3, 6, 9], [1, 2], [4])
    """
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def _joules(service: Service, retrained: int) -> float | None:
    return estimated(0, retrained, retrained, service.model).joules


def _point(service: Service, point: Point) -> s.HistoryPoint:
    return s.HistoryPoint(
        at=timestamp(point.at), round=point.round, shards=point.shards, voting=point.voting,
        sub_models=point.sub_models, memory_bytes=point.memory_bytes, storage_bytes=point.storage_bytes,
        rsn=point.retrained, joules=_joules(service, point.retrained),
    )  # fmt: skip


def _within(at: float, since: float | None, until: float | None) -> bool:
    return (since is None or at >= since) and (until is None or at < until)


def _evaluations(service: Service, since: float | None, until: float | None) -> list[s.HistoryEvaluation]:
    rows = service.home.queries.evaluations(None, STEP)
    shown = []
    for row in reversed(rows):
        if _within(row.at, since, until):
            fields = json.loads(row.text)
            shown.append(
                s.HistoryEvaluation(
                    id=row.id, at=timestamp(row.at), round=row.round, samples=fields["samples"],
                    accuracy=fields["accuracy"], voters=fields["voters"],
                )
            )  # fmt: skip
    return shown


def _rounds(service: Service, since: float | None, until: float | None) -> list[s.HistoryRound]:
    newest = service.device.ledger.round
    rows = service.home.queries.rounds(max(1, newest - MOST_ROUNDS + 1), newest)
    return [
        s.HistoryRound(
            round=number, at=timestamp(row.closed), samples=row.samples, rsn=row.retrained,
            joules=_joules(service, row.retrained),
        )
        for number, row in sorted(rows.items())
        if row.closed is not None and _within(row.closed, since, until)
    ]  # fmt: skip


def _erasures(service: Service, since: float | None, until: float, points: int) -> list[s.HistoryErasures]:
    moments: list[tuple[float, int]] = []
    before, read = None, 0
    while read < MOST_REQUESTS:
        rows = service.home.queries.requests(None, before, STEP)
        moments += [
            (row.effective, row.samples or 0)
            for row in rows
            if row.effective is not None and _within(row.effective, since, until + 1)
        ]
        read += len(rows)
        if len(rows) < STEP:
            break
        before = rows[-1].number
    return counted(sorted(moments), points)


def counted(moments: Sequence[tuple[float, int]], most: int) -> list[s.HistoryErasures]:
    """Return erasures by time, those near to each other counted together.

    >>> [(one.requests, one.samples) for one in counted([(0.0, 5), (1.0, 2), (100.0, 1)], 2)]
    [(2, 7), (1, 1)]
    """
    if not moments:
        return []
    first, last = moments[0][0], moments[-1][0]
    width = (last - first) / most if len(moments) > most else 0.0
    groups: dict[int, list[tuple[float, int]]] = {}
    for number, (at, samples) in enumerate(moments):
        place = min(most - 1, int((at - first) / width)) if width else number
        groups.setdefault(place, []).append((at, samples))
    return [
        s.HistoryErasures(at=timestamp(group[0][0]), requests=len(group), samples=sum(samples for _, samples in group))
        for group in groups.values()
    ]
