"""Samples by what is in them: a test names one as (user, round, row of what was uploaded), wherever a home put it.

Positions are the home's own business and may be drawn at random, so requests are written in rows and translated for
the device that serves them, and what a device holds is read and translated back.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from cause.common import positions as pos
from cause.engine.ledger import Ledger
from cause.engine.requests import Request
from cause.engine.samples import Piece
from tests.device.homes import FEATURES, samples
from tests.recording_disk import unfaulted
from tests.small_learners import Sample

INPUT_BYTES = FEATURES * 4
UNKNOWN = -1
"""The row of a sample that nobody uploaded."""
_rows: dict[tuple[str, int, bytes], int] = {}


@cache
def know(user: str, round_: int, count: int) -> None:
    """Learn what the rows of an upload hold."""
    x, _ = samples(user, round_, count)
    _rows.update({(user, round_, row.tobytes()): number for number, row in enumerate(x)})


def rows_of(piece: Piece) -> list[int]:
    """The row of each sample of a piece, in the order of its positions; it reads the samples."""
    with unfaulted():
        x, _ = piece.upload.arrays(piece.positions)  # type: ignore[attr-defined]
    user, round_ = piece.upload.user, piece.upload.round
    # the row of an additive learner ends with the input that it was made of
    return [_rows.get((user, round_, row.tobytes()[-INPUT_BYTES:]), UNKNOWN) for row in x]


def contents(pieces: Iterable[Piece]) -> set[Sample]:
    """The samples of some pieces."""
    return {(piece.upload.user, piece.upload.round, row) for piece in pieces for row in rows_of(piece)}


def translated(ledger: Ledger, requests: Sequence[Request]) -> list[Request]:
    """The requests with positions in place of rows; a count means the lowest rows, by name."""
    taken: set[Sample] = set()
    translations = []
    for request in requests:
        rounds = ledger.rounds_of(request.user)
        held = {(t, row): at for t in rounds for row, at in _where(ledger, request.user, t).items()}
        mine = sorted(each for each in held if (request.user, *each) not in taken)
        if request.samples is not None:
            mine = list(request.samples)
        elif request.rounds is not None:
            mine = [each for each in mine if each[0] in request.rounds]
        if request.count is not None:
            mine = mine[: request.count]
        taken |= {(request.user, *each) for each in mine}
        if request.samples is not None or request.count is not None:
            missing = [each for each in mine if each not in held]
            assert not missing, f"{request.user} has no sample {missing[0]}"
            request = Request(request.user, samples=tuple(sorted((t, held[t, row]) for t, row in mine)))
        translations.append(request)
    return translations


def _where(ledger: Ledger, user: str, round_: int) -> dict[int, int]:
    """The positions of a user's samples by their rows."""
    positions_by_row: dict[int, int] = {}
    for key, positions in ledger.pieces_of(user, round_):
        piece = ledger.lineage(key.shard)[key].piece(user)
        positions_by_row |= dict(zip(rows_of(piece), pos.array(positions).tolist(), strict=True))
    return positions_by_row
