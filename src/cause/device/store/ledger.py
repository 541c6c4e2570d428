"""The ledger of a home, read from the tables on demand.

At opening only the segments are read: how many samples each retains, and whether it was trained. Pieces and blocks are
looked up by index, so that neither memory nor the time of an erasure grows with the number of samples held.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from cause.common import positions as pos
from cause.common.hashing import digest
from cause.common.positions import Positions
from cause.device.store.directory import Directory
from cause.device.store.inbox import RoundIntake
from cause.device.store.ingest import Ingest
from cause.device.store.quarantine_rows import QuarantineEntry, set_aside
from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import DIGEST_ROW, digest_rows, open_digests
from cause.device.store.stored_upload import Blocks, StoredUpload
from cause.device.store.tables import Tables
from cause.engine.ledger import Lineage, Quarantined, Segment, Selection
from cause.engine.samples import Piece, SegmentKey
from cause.errors import HomeError, VaultError

CACHED_PIECES = 16_384
"""How many pieces of segments are kept in memory after they were read."""


def joined_digest(digests: NDArray[np.uint8]) -> bytes:
    """Return the same as `digest(*digests)` for rows of 32 bytes, at once.

    >>> joined_digest(np.zeros((2, 32), dtype=np.uint8)) == digest(bytes(32), bytes(32))
    True
    """
    packed = np.empty((len(digests), 4 + 32), dtype=np.uint8)
    packed[:, :4], packed[:, 4:] = np.frombuffer(b"b32:", dtype=np.uint8), digests
    return hashlib.sha256(packed.tobytes()).digest()


class StoredSegment(Segment):
    """A segment whose pieces and digests are read from the tables.

    Parameters
    ----------
    key
        The segment.
    count
        How many samples it retains.
    trained
        Whether it was trained before.
    ledger
        Reads its pieces and digests.
    """

    __slots__ = ("_ledger",)

    def __init__(self, key: SegmentKey, count: int, trained: bool, ledger: "HomeLedger") -> None:
        super().__init__(key, ())
        self.count, self.trained, self._ledger = count, trained, ledger

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The retained samples, in the order of the users' names."""
        return self._ledger.pieces(self.key)

    def piece(self, user: str) -> Piece:
        """Return the piece of a user."""
        return next(piece for piece in self.pieces if piece.upload.user == user)

    def piece_digest(self, user: str) -> bytes:
        """Return the digest of the ids in a user's piece."""
        upload, positions = self.piece(user)
        return digest(upload.names(positions))

    def positions(self, user: str) -> Positions:
        """Return the positions of a user's retained samples."""
        positions = (held for key, held in self._ledger.pieces_of(user, self.key.round) if key == self.key)
        return next(positions, range(0))

    @property
    def piece_digests(self) -> Sequence[bytes]:
        """The digests of the ids in each user's piece."""
        return [row.tobytes() for row in self._ledger.digests(self.key)["digest"]]

    @property
    def manifest(self) -> bytes:
        """The digest of the ids of all retained samples."""
        if self._manifest is None:
            self._manifest = joined_digest(self._ledger.digests(self.key)["digest"])
        return self._manifest

    def shrink(self, count: int) -> None:
        """Note that only so many samples are retained."""
        self.count, self._manifest = count, None


class HomeLedger:
    """Who uploaded what, which segment holds it, and what is still retained, from the tables of a home.

    `delete` changes memory alone; the change stays there until the transaction that changes the tables has committed
    (`committed`) or everything is loaded again.

    Parameters
    ----------
    store
        Files and keys.
    tables
        The ledger's tables.
    directory
        The names of the users.
    ingest
        Writes rounds.
    clock
        Returns the time, which dates quarantines.
    """

    def __init__(
        self,
        store: SealedStore,
        tables: Tables,
        directory: Directory,
        ingest: Ingest,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._tables, self._samples = store, tables, tables.samples
        self._directory, self._ingest, self._clock = directory, ingest, clock
        self._round = 0
        self._lineages: dict[int, Lineage] = {}
        self._cached: OrderedDict[SegmentKey, tuple[Piece, ...]] = OrderedDict()
        self._blocks: WeakValueDictionary[int, Blocks] = WeakValueDictionary()
        self._deleted: dict[tuple[str, int], list[tuple[SegmentKey, Positions]]] = {}
        self._aside: dict[SegmentKey, dict[int, QuarantineEntry]] = {}  # in quarantine, by segment and pseudonym
        self._reinstated: set[SegmentKey] = set()

    def load(self) -> None:
        """Read the round, the segments and what is in quarantine."""
        self._lineages, self._deleted, self._aside = {}, {}, {}
        self._reinstated.clear()
        self._cached.clear()
        self._round = self._samples.last_round()
        for segment in self._samples.segments():
            self._append(segment.key, segment.samples, segment.trained)
        for piece in self._samples.quarantined():
            users = self._aside.setdefault(piece.key, {})
            users[piece.pseudonym] = QuarantineEntry(piece.upload, piece.since, piece.verdict)
        for upload_id, blocks in list(self._blocks.items()):
            blocks.replace(self._samples.block_names(upload_id))

    @property
    def lists_digests(self) -> bool:
        """Whether the table of segments has sealed lists of the pieces' digests."""
        return self._ingest.lists_digests

    @lists_digests.setter
    def lists_digests(self, lists: bool) -> None:
        self._ingest.lists_digests = lists

    # Who has what

    @property
    def round(self) -> int:
        """The last round begun; 0 before the first."""
        return self._round

    def placement(self, user: str) -> int | None:
        """Return the shard of a user's newest upload; None if there is none, or if it is in several shards."""
        for round_ in reversed(self.rounds_of(user)):
            shards = {key.shard for key, _ in self.pieces_of(user, round_) if not self.is_quarantined(key, user)}
            if shards:
                return shards.pop() if len(shards) == 1 else None
        return None

    def rounds_of(self, user: str) -> Sequence[int]:
        """Return the rounds in which a user has retained samples, ascending."""
        pseudonym = self._directory.pseudonym(user)
        if pseudonym is None:
            return []
        return [t for t in self._samples.rounds_of(pseudonym) if self._deleted.get((user, t), True)]

    def names_like(self, user: str) -> Sequence[str]:
        """Return the stored names that are this one in another spelling, with retained samples."""
        return [name for name in self._directory.names_like(user) if self.rounds_of(name)]

    def pieces_of(self, user: str, round_: int) -> list[tuple[SegmentKey, Positions]]:
        """Return the segments and positions of an upload's retained samples, quarantined ones included."""
        if (user, round_) in self._deleted:
            return self._deleted[user, round_]
        upload_id = self._upload_id(user, round_)
        return [] if upload_id is None else self._samples.pieces_of_upload(upload_id)

    def held_pieces(self, user: str, round_: int) -> list[tuple[SegmentKey, Piece]]:
        """Return the segments of an upload with its retained samples in each, quarantined ones included."""
        pieces, upload_id = self.pieces_of(user, round_), self._upload_id(user, round_)
        if upload_id is None:
            return []
        blocks = self._blocks_of(upload_id)
        return [(key, Piece(StoredUpload(user, round_, held, blocks), held)) for key, held in pieces]

    def upload(self, user: str, round_: int) -> StoredUpload:
        """Return the retained samples of a user's upload of a round; HomeError if the tables have none."""
        upload_id = self._upload_id(user, round_)
        if upload_id is None:
            raise HomeError(f"there is no upload of user {user!r} in round {round_}")
        held = pos.union([positions for _, positions in self.pieces_of(user, round_)])
        return StoredUpload(user, round_, held, self._blocks_of(upload_id))

    def twins_of(self, user: str, round_: int) -> dict[int, bytes]:
        """Return the digest of each retained sample of an upload, by position: identical samples have the same."""
        upload = self.upload(user, round_)
        return dict(zip(pos.array(upload.positions).tolist(), upload.twins(upload.positions), strict=True))

    def handles_of(self, user: str, round_: int) -> dict[str, int]:
        """Return the positions of an upload's retained samples, by handle."""
        upload = self.upload(user, round_)
        handles = (row.tobytes().hex() for row in upload.handles(upload.positions))
        return dict(zip(handles, pos.array(upload.positions).tolist(), strict=True))

    # Segments

    def shards(self) -> Sequence[int]:
        """Return the shards that retain anything, ascending."""
        return sorted(self._lineages)

    def lineage(self, shard: int) -> Lineage:
        """Return the segments of a shard, in order."""
        return self._lineages.get(shard, Lineage())

    def pieces(self, key: SegmentKey) -> tuple[Piece, ...]:
        """Return a segment's retained samples, in the order of the users' names."""
        cached = self._cached.get(key)
        if cached is None:
            rows = self._samples.pieces_of_segment(key, quarantined=key in self._reinstated)
            named = ((self._directory.name(pseudonym), upload, held) for upload, pseudonym, held in rows)
            pieces = []
            for user, upload_id, recorded in sorted(named, key=lambda row: row[0]):
                left = recorded
                if (user, key.round) in self._deleted:
                    left = dict(self._deleted[user, key.round]).get(key, range(0))
                if len(left):
                    pieces.append(Piece(StoredUpload(user, key.round, left, self._blocks_of(upload_id)), left))
            cached = self._cached[key] = tuple(pieces)
            while len(self._cached) > 1 and sum(map(len, self._cached.values())) > CACHED_PIECES:
                self._cached.popitem(last=False)
        else:
            with suppress(KeyError):
                self._cached.move_to_end(key)
        return cached

    def digests(self, key: SegmentKey) -> NDArray[np.void]:
        """Return the digest of each piece's ids, with its user's pseudonym, in the order of the users' names.

        They are sealed in the table under the segment's own key. If they cannot be opened, or samples are being
        deleted, they are computed from the blocks.
        """
        touched = {user: dict(pieces).get(key, range(0)) for (user, round_), pieces in self._deleted.items()
                   if round_ == key.round}  # fmt: skip
        rows = None if key in self._reinstated else self._sealed_digests(key)
        if rows is None:
            names = self._directory
            return digest_rows(
                [(names.pseudonym(p.upload.user) or 0, digest(p.upload.names(p.positions))) for p in self.pieces(key)]
            )
        for user, left in touched.items():
            at = np.flatnonzero(rows["pseudonym"] == self._directory.pseudonym(user))
            if not len(at):
                continue
            if not len(left):
                rows = np.delete(rows, at)
            elif len(left) < self._recorded_count(user, key):
                rows = rows.copy()
                rows["digest"][at] = np.frombuffer(digest(self.upload(user, key.round).names(left)), dtype=np.uint8)
        return rows

    # Changes

    def record(
        self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]], intake: RoundIntake | None = None
    ) -> None:
        """Begin a round: write what arrived in it, and delete the staged uploads that it takes in (`intake`)."""
        self._ingest.record(round_, segments, intake or RoundIntake())
        self._round = round_
        for key in sorted(segments):
            self._append(key, sum(len(piece.positions) for piece in segments[key]), trained=False)

    def delete(self, selection: Selection) -> None:
        """Delete samples in memory, until `committed` or the next `load`; the home changes the tables."""
        touched: set[SegmentKey] = set()
        for (user, round_), forgotten in selection.items():
            left = []
            for key, held in self.pieces_of(user, round_):
                kept = pos.minus(held, forgotten)
                if self.is_quarantined(key, user):
                    if not len(kept):
                        self._drop_aside(key, user)
                elif len(kept) < len(held):
                    segment = self._lineages[key.shard][key]
                    assert isinstance(segment, StoredSegment)
                    segment.shrink(segment.count - len(held) + len(kept))
                    self._cached.pop(key, None)
                    touched.add(key)
                if len(kept):
                    left.append((key, kept))
            self._deleted[user, round_] = left
        for key in touched:
            self._recount(key)

    def _recount(self, key: SegmentKey) -> None:
        self._lineages[key.shard].recount(key)
        if self._lineages[key.shard].last is None:
            del self._lineages[key.shard]

    # Quarantine

    def quarantined(self) -> list[Quarantined]:
        """Return all samples in quarantine, by segment and user."""
        quarantined = []
        for key, users in sorted(self._aside.items()):
            for pseudonym, aside in users.items():
                user = self._directory.name(pseudonym)
                held = dict(self.pieces_of(user, key.round)).get(key, range(0))
                quarantined.append(Quarantined(user, key, len(held), aside.verdict, aside.since, aside.upload))
        return sorted(quarantined, key=lambda samples: (samples.segment, samples.user))

    def is_quarantined(self, key: SegmentKey, user: str) -> bool:
        """Return whether a user's samples in a segment are in quarantine."""
        return self.aside(key, user) is not None

    def aside(self, key: SegmentKey, user: str) -> "QuarantineEntry | None":
        """Return the upload, time and verdict of a user's quarantined samples in a segment; None if there are none."""
        users = self._aside.get(key)
        return None if users is None else users.get(self._directory.pseudonym(user) or 0)

    @property
    def reinstated(self) -> set[SegmentKey]:
        """Segments that get their quarantined samples back, once the transaction under way has committed."""
        return self._reinstated

    def quarantine(self, key: SegmentKey, verdicts: Mapping[str, str]) -> None:
        """Set the samples of these users in a segment aside, durably."""
        segment = self._lineages[key.shard][key]
        assert isinstance(segment, StoredSegment)
        left = segment.count - sum(len(segment.positions(user)) for user in verdicts)
        pieces, now = dict[int, QuarantineEntry](), self._clock()
        for user, verdict in verdicts.items():
            pseudonym, upload_id = self._directory.pseudonym(user) or 0, self._upload_id(user, key.round)
            assert upload_id is not None
            pieces[pseudonym] = QuarantineEntry(upload_id, now, verdict)
        set_aside(self._store, self._tables, key, pieces, self.digests(key), left)
        self._aside.setdefault(key, {}).update(pieces)
        segment.shrink(left)
        self._cached.pop(key, None)
        self._recount(key)

    def reinstate(self, first: SegmentKey) -> None:
        """Put quarantined samples back into the segments of a shard from this one on, in memory."""
        for key in sorted(key for key in self._aside if key.shard == first.shard and key >= first):
            users = {self._directory.name(pseudonym) for pseudonym in self._aside.pop(key)}
            lineage = self._lineages.setdefault(key.shard, Lineage())
            segment = lineage[key] if key in lineage else StoredSegment(key, 0, self._samples.is_trained(key), self)
            assert isinstance(segment, StoredSegment)
            segment.shrink(segment.count + sum(len(segment.positions(user)) for user in users))
            lineage.put(segment)
            self._reinstated.add(key)
            self._cached.pop(key, None)

    def _drop_aside(self, key: SegmentKey, user: str) -> None:
        users = self._aside[key]
        del users[self._directory.pseudonym(user) or 0]
        if not users:
            del self._aside[key]

    def committed(self, blocks: Mapping[int, list[bytes]], renumbered: Iterable[int] = ()) -> None:
        """Note that the transaction with the deletions has committed.

        Parameters
        ----------
        blocks
            The names of the blocks of each changed upload, by its id.
        renumbered
            The ids of the uploads whose positions have changed.
        """
        self._deleted.clear()
        self._reinstated.clear()
        for upload_id in renumbered:
            for key, _ in self._samples.pieces_of_upload(upload_id):
                self._cached.pop(key, None)
            if (old := self._blocks.pop(upload_id, None)) is not None:
                old.retire()
        for upload_id, names in blocks.items():
            if upload_id in self._blocks:
                self._blocks[upload_id].replace(names)

    def _append(self, key: SegmentKey, count: int, trained: bool) -> None:
        self._lineages.setdefault(key.shard, Lineage()).append(StoredSegment(key, count, trained, self))

    def _upload_id(self, user: str, round_: int) -> int | None:
        return self._samples.upload_id(self._directory.pseudonym(user), round_)

    def _blocks_of(self, upload_id: int) -> Blocks:
        blocks = self._blocks.get(upload_id)
        if blocks is None:
            names = self._samples.block_names(upload_id)
            blocks = self._blocks[upload_id] = Blocks(upload_id, self._store.blocks, names)
        return blocks

    def _recorded_count(self, user: str, key: SegmentKey) -> int:
        upload_id = self._upload_id(user, key.round)
        return 0 if upload_id is None else len(dict(self._samples.pieces_of_upload(upload_id)).get(key, range(0)))

    def _sealed_digests(self, key: SegmentKey) -> "NDArray[np.void] | None":
        seal = self._samples.segment_seal(key)
        if seal is None or seal[1] is None:
            return None
        try:
            plain = open_digests(self._store.vault, seal[0], key, seal[1])
            return np.frombuffer(plain, dtype=DIGEST_ROW)
        except (VaultError, ValueError):
            return None
