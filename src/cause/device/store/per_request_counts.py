"""Counts what each request deletes, where several are served together: a receipt counts its own samples."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cause.common import positions as pos
from cause.common.names import fold
from cause.common.positions import Positions
from cause.device.store.inbox import Inbox
from cause.device.store.ledger import HomeLedger
from cause.device.store.tables.samples import SampleTables
from cause.engine.ledger import Selection
from cause.engine.requests import Request


@dataclass
class RequestDeletion:
    """What one request deletes."""

    samples: int = 0
    """Samples of rounds and staged ones."""
    staged: int = 0
    shards: Counter[int] = field(default_factory=Counter)
    """Samples of rounds, by shard."""


@dataclass(frozen=True)
class ShareCounter:
    """Counts what each of several requests deletes, while ledger and inbox still have their blocks.

    Parameters
    ----------
    ledger, inbox
        The uploads of rounds, and the staged ones.
    samples
        The table of samples.
    """

    ledger: HomeLedger
    inbox: Inbox
    samples: SampleTables

    def shares(self, requests: Sequence[Request], selection: Selection) -> list[RequestDeletion]:
        """Return what each request deletes; call it before the tables change.

        Where two requests name the same sample, the first one counts it. All shares together are the whole selection.

        Parameters
        ----------
        requests
            The requests, in the order of their ids.
        selection
            The samples of rounds that all of them delete.
        """
        shares, left = [RequestDeletion() for _ in requests], dict(selection)
        users = Counter(fold(request.user) for request in requests)
        counted: dict[str, set[str] | None] = {}
        for share, request in zip(shares, requests, strict=True):
            for upload in left:
                if _is_of(request, upload[0]):
                    alone = users[fold(request.user)] == 1  # then its blocks need not be read, which may be damaged
                    taken = left[upload] if alone else self._named(request, *upload, left[upload])
                    self._take(share, left, upload, taken)
            share.staged = self._staged(request, counted)
            share.samples += share.staged
        for share, request in reversed(list(zip(shares, requests, strict=True))):
            for upload in left:  # of identical samples another one may be deleted than the one that was named
                if _is_of(request, upload[0]):
                    self._take(share, left, upload, left[upload])
        return shares

    def _take(
        self, share: RequestDeletion, left: dict[tuple[str, int], Positions], upload: tuple[str, int], taken: Positions
    ) -> None:
        """Move positions of an upload from `left` to a share."""
        if not len(taken):
            return
        share.samples += len(taken)
        for key, held in self.samples.pieces_of_upload(self.ledger.upload(*upload).blocks.upload_id):
            share.shards[key.shard] += len(pos.common(held, taken))
        left[upload] = pos.minus(left[upload], taken)

    def _named(self, request: Request, user: str, round_: int, left: Positions) -> Positions:
        """Return the positions of an upload, out of `left`, that a request names."""
        if request.handles is not None:
            meta, handles = self.ledger.upload(user, round_).blocks.metas(), set(request.handles)
            rows = [row for row, handle in enumerate(meta.handles) if handle.tobytes().hex() in handles]
            return pos.common(left, pos.from_values(meta.positions[rows].tolist()))
        if request.samples is not None:
            return pos.common(left, pos.from_values([position for of, position in request.samples if of == round_]))
        if request.rounds is not None and round_ not in request.rounds:
            return range(0)
        return left if request.count is None else pos.lowest(left, min(request.count, len(left)))

    def _staged(self, request: Request, counted: dict[str, set[str] | None]) -> int:
        """Return how many staged samples a request deletes that no earlier one did.

        Parameters
        ----------
        request
            The request.
        counted
            By user: the handles of staged samples that are counted; None if all of them are. It is updated.
        """
        user = fold(request.user)
        before = counted.get(user, set())
        if before is None or not (request.everything or request.handles):
            return 0
        if request.everything:
            counted[user] = None
            return sum(upload.samples for upload in self.inbox.of_any_spelling(request.user)) - len(before)
        new = (self.inbox.handles_of(request.user) & set(request.handles or ())) - before
        counted[user] = before | new
        return len(new)


def _is_of(request: Request, user: str) -> bool:
    return request.user == user if request.exact else fold(request.user) == fold(user)
