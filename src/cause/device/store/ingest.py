"""Recording a round: its samples are cut into blocks, sealed and written, and then named in the tables."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cause.common.hashing import digest
from cause.device.store.blocks import Block
from cause.device.store.clock import Clock
from cause.device.store.directory import Directory, DirectoryChange
from cause.device.store.inbox import Inbox, RoundIntake
from cause.device.store.reserve import Reserve
from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import digest_rows, name_bytes, seal_classes, seal_digests, upload_key
from cause.device.store.stored_upload import cut
from cause.device.store.tables import Tables
from cause.device.store.tables.samples import PieceRow
from cause.device.vault.secrets_in_memory import wipe
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Piece, SegmentKey
from cause.errors import InputError


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
    intake: RoundIntake


class Ingest:
    """Records the rounds of a home.

    Parameters
    ----------
    store
        Files and keys.
    tables
        The ledger's tables.
    directory
        The names of the users.
    inbox
        The staged uploads that rounds take in.
    reserve
        Refuses what the disk has no room for.
    clock
        Dates the round.
    """

    def __init__(
        self, store: SealedStore, tables: Tables, directory: Directory, inbox: Inbox, reserve: Reserve, clock: Clock
    ) -> None:
        self._store, self._tables, self._directory = store, tables, directory
        self._inbox, self._reserve, self._clock = inbox, reserve, clock
        self.lists_digests = True
        """Whether each segment gets a sealed list of its pieces' digests."""

    def record(self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]], intake: RoundIntake) -> None:
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
        store = self._store
        whole = {user: _joined(pieces) for user, pieces in _by_user(segments).items()}
        cuts = {user: [(os.urandom(16), block) for block in cut(upload)] for user, upload in whole.items()}
        keys = {name: os.urandom(32) for blocks in cuts.values() for name, _ in blocks}
        contents = [(name, block.sealed(name, keys[name])) for blocks in cuts.values() for name, block in blocks]
        sizes = {name: len(data) for name, data in contents}
        largest = max((sum(sizes[name] for name, _ in blocks) for blocks in cuts.values()), default=0)
        self._reserve.require(self._tables, sum(sizes.values()) - intake.bytes, largest, whole)
        pseudonyms, new = self._pseudonyms(whole)
        change = self._directory.plan(new)
        names = {key: os.urandom(16) for key in segments if self.lists_digests}
        keys |= {name: os.urandom(32) for name in names.values()} | change.keys
        self._directory.seal(change, store.vault)
        store.write(keys, contents)
        arrived = _Round(round_, segments, cuts, sizes, names, pseudonyms, change, intake)
        try:
            with self._tables.database.transaction():
                self._add_rows(arrived)
        except BaseException:
            store.garbage.add_uncertain(keys)
            raise
        self._directory.apply(change)
        store.discard_blocks(self._inbox.after_round_committed(intake))

    def _add_rows(self, arrived: _Round) -> None:
        """Add a round's uploads, blocks, segments and pieces to the tables; call it in a transaction."""
        samples, vault, now, round_ = self._tables.samples, self._store.vault, self._clock.now(), arrived.number
        samples.begin_round(round_, arrived.pseudonyms.values())
        self._clock.note()
        self._directory.write(arrived.directory, self._tables.database)
        uploads: dict[str, int] = {}
        for user, blocks in arrived.cuts.items():
            first = blocks[0][0]
            sealed = vault.seal(first, name_bytes(user), b"user" + first)
            first_arrival = arrived.intake.arrived(user, now)
            uploads[user] = samples.add_upload(round_, now, first_arrival, arrived.pseudonyms[user], sealed)
            samples.add_blocks(uploads[user], [(name, arrived.sizes[name]) for name, _ in blocks])
        self._inbox.delete_taken_in(arrived.intake, round_, now, uploads)
        samples.add_segments((key, *self._segment_row(arrived, key)) for key in sorted(arrived.segments))
        placed = [(key, piece) for key, pieces in arrived.segments.items() for piece in pieces]
        samples.add_pieces((uploads[p.upload.user], PieceRow(key, p.positions)) for key, p in placed)
        sealing = {user: upload_key(vault, [name for name, _ in blocks]) for user, blocks in arrived.cuts.items()}
        samples.add_arrivals(
            round_,
            [
                (arrived.pseudonyms[p.upload.user], len(p.positions), key.shard,
                 seal_classes(sealing[p.upload.user], p.upload.labels(p.positions)))
                for key, p in placed
            ],
        )  # fmt: skip
        wipe(*sealing.values())

    def _segment_row(self, arrived: _Round, key: SegmentKey) -> tuple[int, bytes | None, bytes | None]:
        """Return the number of samples of a segment, and its key's name and sealed digests if it has a list of them."""
        count = sum(len(piece.positions) for piece in arrived.segments[key])
        if key not in arrived.segment_names:
            return count, None, None
        pieces = sorted(arrived.segments[key], key=lambda piece: piece.upload.user)
        digests = [(arrived.pseudonyms[p.upload.user], digest(p.upload.names(p.positions))) for p in pieces]
        name = arrived.segment_names[key]
        with self._store.vault.borrow(name) as borrowed:
            return count, name, seal_digests(borrowed, key, digest_rows(digests))

    def _pseudonyms(self, users: Mapping[str, object]) -> tuple[dict[str, int], dict[str, int]]:
        """Return the pseudonyms of all users, and those of the new users alone."""
        last = self._tables.samples.last_pseudonym()
        pseudonyms: dict[str, int] = {}
        new: dict[str, int] = {}
        for user in users:
            pseudonym = self._directory.pseudonym(user)
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
    """Return the upload that was cut into these pieces."""
    uploads = []
    for upload, _ in pieces:
        if not isinstance(upload, ArrayUpload):
            raise InputError(f"a home keeps samples with their data, not a {type(upload).__name__}")
        uploads.append(upload)
    return uploads[0] if len(uploads) == 1 else ArrayUpload.joined(uploads)
