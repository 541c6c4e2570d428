"""A round arrives: its samples are cut into blocks, sealed and written, and then the tables name them."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cause import positions as pos
from cause.arrays import ArrayUpload
from cause.errors import InputError
from cause.home.blocks import Block
from cause.home.seals import seal_classes, seal_digest, upload_key
from cause.home.uploads import Blocks, StoredUpload, cut
from cause.keyed import digest
from cause.samples import Piece, SegmentKey
from cause.vault import seal

if TYPE_CHECKING:
    from cause.home.home import Home


def store(
    home: "Home", round_: int, segments: Mapping[SegmentKey, Sequence[Piece]]
) -> Mapping[SegmentKey, Sequence[Piece]]:
    """Write a round's samples, durably; the same pieces, with their samples on the disk."""
    whole = {user: _joined(pieces) for user, pieces in _by_user(segments).items()}
    cuts = {user: [(os.urandom(16), block) for block in cut(upload)] for user, upload in whole.items()}
    keys = {name: os.urandom(32) for blocks in cuts.values() for name, _ in blocks}
    contents = [(name, block.sealed(name, keys[name])) for blocks in cuts.values() for name, block in blocks]
    home.refuse_what_cannot_fit(sum(len(data) for _, data in contents) - home.inbox.leaving_bytes)
    home.write(keys, contents)
    sizes = {name: len(data) for name, data in contents}
    try:
        uploads = record(home, round_, segments, cuts, keys, sizes)
    except BaseException:
        home.garbage.update(keys)
        raise
    home.discard(home.inbox.left())
    for user, own in uploads.items():
        home.blocks[user, round_] = own
    return {
        key: [
            Piece(StoredUpload(p.upload.user, round_, p.positions, uploads[p.upload.user]), p.positions) for p in pieces
        ]
        for key, pieces in segments.items()
    }


def record(
    home: "Home",
    round_: int,
    segments: Mapping[SegmentKey, Sequence[Piece]],
    cuts: Mapping[str, list[tuple[bytes, Block]]],
    keys: Mapping[bytes, bytes],
    sizes: Mapping[bytes, int],
) -> dict[str, Blocks]:
    """One transaction: the tables name a round's uploads, their blocks and their pieces."""
    uploads: dict[str, Blocks] = {}
    database, now = home.database, home.clock()
    with database.transaction():
        database.set("round", round_)
        home.time.note()
        home.inbox.leave(round_, now)
        pseudonym = database.get("pseudonyms", 0)
        given: dict[str, int] = {}
        for user, blocks in cuts.items():
            if user in home.pseudonyms:
                given[user] = home.pseudonyms[user]
            else:
                pseudonym += 1
                given[user] = pseudonym
            first = blocks[0][0]
            sealed = seal(keys[first], user.encode(), b"user" + first)
            row = [round_, now, home.inbox.since(user, now), given[user], sealed]
            upload = database.run(
                "INSERT INTO uploads (round, received, arrived, pseudonym, sealed_user) VALUES (?, ?, ?, ?, ?)", row
            ).lastrowid
            rows = [(name, upload, part, sizes[name]) for part, (name, _) in enumerate(blocks)]
            database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
            uploads[user] = Blocks(upload, home.store_, [name for name, _ in blocks])
        database.set("pseudonyms", pseudonym)
        database.many("INSERT INTO segments VALUES (?, ?, ?, 0)", [list(key) for key in sorted(segments)])
        pieces = [(key, piece) for key, each in segments.items() for piece in each]
        sealing = {user: upload_key(home.vault, own.names) for user, own in uploads.items()}
        database.many(
            "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?)",
            [
                [uploads[p.upload.user].upload_id, *key, pos.runs(p.positions),
                 seal_digest(sealing[p.upload.user], key, digest(p.upload.names(p.positions)))]
                for key, p in pieces
            ],
        )  # fmt: skip
        database.many(
            "INSERT INTO history (round, kind, pseudonym, samples, shard, sealed_classes) "
            "VALUES (?, 'add', ?, ?, ?, ?)",
            [
                [round_, given[p.upload.user], len(p.positions), key.shard,
                 seal_classes(sealing[p.upload.user], p.upload.labels(p.positions))]
                for key, p in pieces
            ],
        )  # fmt: skip
    home.pseudonyms.update(given)
    return uploads


def _by_user(segments: Mapping[SegmentKey, Sequence[Piece]]) -> dict[str, list[Piece]]:
    found: dict[str, list[Piece]] = {}
    for pieces in segments.values():
        for piece in pieces:
            found.setdefault(piece.upload.user, []).append(piece)
    return dict(sorted(found.items()))


def _joined(pieces: Sequence[Piece]) -> ArrayUpload:
    """The upload that was cut into these pieces."""
    uploads = []
    for upload, _ in pieces:
        if not isinstance(upload, ArrayUpload):
            raise InputError(f"a home keeps samples with their data, not a {type(upload).__name__}")
        uploads.append(upload)
    return uploads[0] if len(uploads) == 1 else ArrayUpload.joined(uploads)
