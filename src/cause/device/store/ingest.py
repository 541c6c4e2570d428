"""Recording a round: its samples are cut into blocks, sealed and written, and then named in the tables."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cause.common import positions as pos
from cause.common.hashing import digest
from cause.device.store.blocks import Block
from cause.device.store.directory import DirectoryChange
from cause.device.store.inbox import Intake
from cause.device.store.ledger import digest_rows
from cause.device.store.seals import name_bytes, seal_classes, seal_digests, upload_key
from cause.device.store.stored_upload import cut
from cause.device.vault.secrets_in_memory import wipe
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Piece, SegmentKey
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.device.store.home import Home


@dataclass(frozen=True)
class _Round:
    """What a round adds to a home."""

    number: int
    segments: Mapping[SegmentKey, Sequence[Piece]]
    cuts: Mapping[str, list[tuple[bytes, Block]]]
    sizes: Mapping[bytes, int]
    segment_names: Mapping[SegmentKey, bytes]
    pseudonyms: Mapping[str, int]
    directory: DirectoryChange
    intake: Intake


def store(home: "Home", round_: int, segments: Mapping[SegmentKey, Sequence[Piece]], intake: Intake) -> None:
    """Write a round's samples and name them in the tables, durably and in one step.

    Parameters
    ----------
    round_
        The number of the round.
    segments
        The pieces of its uploads, by segment.
    intake
        The staged uploads that the round takes in: the same transaction deletes their rows.

    Raises
    ------
    BudgetError
        If there is no room for the samples. Nothing was changed then.
    HomeError, VaultError
        If the disk refuses. The round is not recorded then.
    """
    whole = {user: _joined(pieces) for user, pieces in _by_user(segments).items()}
    cuts = {user: [(os.urandom(16), block) for block in cut(upload)] for user, upload in whole.items()}
    keys = {name: os.urandom(32) for blocks in cuts.values() for name, _ in blocks}
    contents = [(name, block.sealed(name, keys[name])) for blocks in cuts.values() for name, block in blocks]
    sizes = {name: len(data) for name, data in contents}
    largest = max((sum(sizes[name] for name, _ in blocks) for blocks in cuts.values()), default=0)
    home.refuse_what_cannot_fit(sum(sizes.values()) - intake.bytes, largest)
    pseudonyms, new = _pseudonyms(home, whole)
    change = home.directory.plan(new)
    names = {key: os.urandom(16) for key in segments}
    keys |= {name: os.urandom(32) for name in names.values()} | change.keys
    home.directory.seal(change, home.vault)
    home.write(keys, contents)
    arrived = _Round(round_, segments, cuts, sizes, names, pseudonyms, change, intake)
    try:
        with home.database.transaction():
            _record(home, arrived)
    except BaseException:
        home.garbage.doubt(keys)
        raise
    home.directory.apply(change)
    home.discard(home.inbox.left(intake))


def _record(home: "Home", arrived: _Round) -> None:
    """Add a round's uploads, blocks, segments and pieces to the tables; call it in a transaction."""
    database, now, round_ = home.database, home.clock(), arrived.number
    database.set("round", round_)
    home.time.note()
    home.inbox.leave(arrived.intake, round_, now)
    home.directory.write(arrived.directory, database)
    uploads: dict[str, int] = {}
    for user, blocks in arrived.cuts.items():
        first = blocks[0][0]
        sealed = home.vault.seal(first, name_bytes(user), b"user" + first)
        row = [round_, now, arrived.intake.arrived(user, now), arrived.pseudonyms[user], sealed]
        uploads[user] = database.run(
            "INSERT INTO uploads (round, received, arrived, pseudonym, sealed_user, layout) VALUES (?, ?, ?, ?, ?, 1)",
            row,
        ).lastrowid
        rows = [(name, uploads[user], part, arrived.sizes[name]) for part, (name, _) in enumerate(blocks)]
        database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
    database.set("pseudonyms", max([database.get("pseudonyms", 0), *arrived.pseudonyms.values()]))
    segments = []
    for key in sorted(arrived.segments):
        pieces = sorted(arrived.segments[key], key=lambda piece: piece.upload.user)
        digests = [(arrived.pseudonyms[p.upload.user], digest(p.upload.names(p.positions))) for p in pieces]
        name = arrived.segment_names[key]
        samples = sum(len(piece.positions) for piece in pieces)
        with home.vault.borrow(name) as borrowed:
            segments.append([*key, 0, samples, name, seal_digests(borrowed, key, digest_rows(digests))])
    database.many(
        "INSERT INTO segments (shard, round, slice, trained, samples, key, sealed_digests) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        segments,
    )
    placed = [(key, piece) for key, pieces in arrived.segments.items() for piece in pieces]
    database.many(
        "INSERT INTO pieces (upload, shard, round, slice, positions) VALUES (?, ?, ?, ?, ?)",
        [[uploads[p.upload.user], *key, pos.runs(p.positions)] for key, p in placed],
    )
    sealing = {user: upload_key(home.vault, [name for name, _ in blocks]) for user, blocks in arrived.cuts.items()}
    database.many(
        "INSERT INTO history (round, kind, pseudonym, samples, shard, sealed_classes) VALUES (?, 'add', ?, ?, ?, ?)",
        [
            [round_, arrived.pseudonyms[p.upload.user], len(p.positions), key.shard,
             seal_classes(sealing[p.upload.user], p.upload.labels(p.positions))]
            for key, p in placed
        ],
    )  # fmt: skip
    wipe(*sealing.values())


def _pseudonyms(home: "Home", users: Mapping[str, object]) -> tuple[dict[str, int], dict[str, int]]:
    """The pseudonyms of all users, and those of the new users alone."""
    last = home.database.get("pseudonyms", 0)
    pseudonyms: dict[str, int] = {}
    new: dict[str, int] = {}
    for user in users:
        pseudonym = home.directory.pseudonym(user)
        if pseudonym is None:
            last += 1
            pseudonym = new[user] = last
        pseudonyms[user] = pseudonym
    return pseudonyms, new


def _by_user(segments: Mapping[SegmentKey, Sequence[Piece]]) -> dict[str, list[Piece]]:
    by_user: dict[str, list[Piece]] = {}
    for pieces in segments.values():
        for piece in pieces:
            by_user.setdefault(piece.upload.user, []).append(piece)
    return dict(sorted(by_user.items()))


def _joined(pieces: Sequence[Piece]) -> ArrayUpload:
    """The upload that was cut into these pieces."""
    uploads = []
    for upload, _ in pieces:
        if not isinstance(upload, ArrayUpload):
            raise InputError(f"a home keeps samples with their data, not a {type(upload).__name__}")
        uploads.append(upload)
    return uploads[0] if len(uploads) == 1 else ArrayUpload.joined(uploads)
