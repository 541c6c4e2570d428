"""Lists that are also parts of the status: samples in quarantine, and exports."""

from collections.abc import Sequence

from cause.device.status import Export
from cause.device.store.queries import ExportRow
from cause.engine.ledger import Quarantined
from cause.service import schemas as s
from cause.service.responses import optional_timestamp, timestamp
from cause.service.service import Service


def quarantine(service: Service, after: int | None = None, limit: int | None = None, *, names: bool) -> s.Quarantine:
    """Return what is in quarantine, by the number of the upload.

    Parameters
    ----------
    service
        The service.
    after
        Only uploads with a higher number: the `next` of the page before.
    limit
        The most uploads on the page; None for all.
    names
        Whether the answer may contain user ids.
    """
    with service.device.lock:
        pieces = service.device.ledger.quarantined()
    return quarantine_page(pieces, after, limit, names=names)


def quarantine_page(
    pieces: Sequence[Quarantined], after: int | None = None, limit: int | None = None, *, names: bool
) -> s.Quarantine:
    """Return a page of pieces in quarantine; its counts are of all pieces. Parameters as of `quarantine`."""
    ordered = sorted(pieces, key=lambda piece: piece.upload or 0)  # stable: pieces of one upload stay by segment
    uploads = list(dict.fromkeys(piece.upload or 0 for piece in ordered))
    left = [upload for upload in uploads if after is None or upload > after]
    page = left if limit is None else left[:limit]
    shown = set(page)
    items = [
        s.QuarantinedUpload(
            upload=piece.upload or 0, user=piece.user if names else None, round=piece.round, shard=piece.segment.shard,
            samples=piece.samples, verdict=piece.verdict, since=optional_timestamp(piece.since),
        )
        for piece in ordered
        if (piece.upload or 0) in shown
    ]  # fmt: skip
    return s.Quarantine(
        uploads=len(uploads),
        samples=sum(piece.samples for piece in pieces),
        items=items,
        next=page[-1] if len(page) < len(left) else None,
    )


def exports(service: Service, before: int | None, limit: int) -> s.Exports:
    """Return a page of exports, the newest first: at most `limit`, of those before the cursor `before`."""
    rows = service.home.queries.newest_exports(before, limit + 1)
    items = [export(row) for _, row in rows[:limit]]
    return s.Exports(items=items, next=rows[limit - 1][0] if len(rows) > limit else None)


def export(row: ExportRow | Export) -> s.Export:
    """Return one export."""
    return s.Export(id=row.id, made=timestamp(row.made), form=row.form, tainted=optional_timestamp(row.tainted))
