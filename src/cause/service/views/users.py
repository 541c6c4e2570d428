"""The bodies about one user: what is held of them."""

from cause.service import schemas as s
from cause.service.access import inspects
from cause.service.responses import timestamp
from cause.service.service import Service
from cause.service.tokens import Token
from cause.service.views.shared import own_fields


def user_for(token: Token, user: s.User) -> s.User | s.OwnUser:
    """Return what is held of a user as a token may read it."""
    if inspects(token):
        return user
    rounds_ = [s.OwnRound(**own_fields(s.OwnRound, round_)) for round_ in user.rounds]
    return s.OwnUser(**own_fields(s.OwnUser, user) | {"rounds": rounds_})


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
        staged = service.home.inbox.of_any_spelling(name)
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
