"""The bodies of rounds."""

from cause.device.store.queries import RoundRow
from cause.service import schemas as s
from cause.service.responses import optional_timestamp
from cause.service.service import Service


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
