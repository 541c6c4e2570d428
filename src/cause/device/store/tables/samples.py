"""The tables of the retained samples: uploads, their blocks and pieces, segments, and the history."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cause.common import positions as pos
from cause.common.positions import Positions
from cause.device.store.database import Database
from cause.engine.samples import SegmentKey

UNCHECKED, RANDOM, WHOLE = 0, 1, 2
"""`uploads.layout`: ranks of digests and samples are missing; random; ranks of digests and nothing is missing."""
_SEGMENT = "(shard, round, slice)=(?, ?, ?)"


class SegmentRow(NamedTuple):
    """A segment with retained samples."""

    key: SegmentKey
    trained: bool
    samples: int


class QuarantineRow(NamedTuple):
    """A piece in quarantine."""

    key: SegmentKey
    pseudonym: int
    upload: int
    since: float
    verdict: str


class PieceRow(NamedTuple):
    """A piece of an upload, as it is written."""

    key: SegmentKey
    positions: Positions
    quarantined: float | None = None
    verdict: str | None = None


class SampleTables:
    """Uploads, blocks, pieces, segments and history. Every method raises HomeError if the ledger cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Uploads

    def upload_id(self, pseudonym: int | None, round_: int) -> int | None:
        """Return the id of a user's upload of a round."""
        row = self._database.row("SELECT id FROM uploads WHERE (pseudonym, round)=(?, ?)", [pseudonym, round_])
        return None if row is None else int(row[0])

    def rounds_of(self, pseudonym: int) -> list[int]:
        """Return the rounds in which a user uploaded something that is retained, ascending."""
        rows = self._database.rows("SELECT round FROM uploads WHERE pseudonym=? ORDER BY round", [pseudonym])
        return [round_ for (round_,) in rows]

    def pseudonyms_of(self, round_: int) -> set[int]:
        """Return the users who uploaded something in a round that is retained."""
        return {p for (p,) in self._database.rows("SELECT pseudonym FROM uploads WHERE round=?", [round_])}

    def arrived(self, upload: int) -> float:
        """Return when the first sample of an upload arrived."""
        (arrived,) = self._database.row("SELECT arrived FROM uploads WHERE id=?", [upload])
        return float(arrived)

    def layout(self, upload: int) -> int:
        """Return how an upload's positions came to be; see `cause.device.store.relayout`."""
        (layout,) = self._database.row("SELECT layout FROM uploads WHERE id=?", [upload])
        return int(layout)

    def uploads_upto_round(self, last: float) -> list[tuple[int, int]]:
        """Return pseudonym and round of the uploads of all rounds up to one."""
        return self._old_uploads("round <= ?", last)

    def uploads_before(self, moment: float) -> list[tuple[int, int]]:
        """Return pseudonym and round of the uploads that arrived before a moment."""
        return self._old_uploads("arrived < ?", moment)

    def _old_uploads(self, rule: str, limit: float) -> list[tuple[int, int]]:
        rows = self._database.rows(f"SELECT pseudonym, round FROM uploads WHERE {rule}", [limit])
        return [(pseudonym, round_) for pseudonym, round_ in rows]

    def uploads_of_layout(self, layout: int, limit: int) -> list[tuple[int, int, int, int]]:
        """Return id, round, pseudonym and bytes of the first uploads with a layout, at most so many."""
        rows = self._database.rows(
            "SELECT id, uploads.round, pseudonym, (SELECT sum(bytes) FROM blocks WHERE upload=id) FROM uploads "
            f"WHERE layout={int(layout)} ORDER BY id LIMIT ?",
            [limit],
        )
        return [(upload, round_, pseudonym, size or 0) for upload, round_, pseudonym, size in rows]

    def add_upload(self, round_: int, received: float, arrived: float, pseudonym: int, sealed_user: bytes) -> int:
        """Add an upload with random positions, and return its id.

        Parameters
        ----------
        round_
            The round that takes it in.
        received, arrived
            When the round was recorded, and when the upload's first sample came.
        pseudonym, sealed_user
            Whose it is.
        """
        done = self._database.run(
            "INSERT INTO uploads (round, received, arrived, pseudonym, sealed_user, layout) VALUES (?, ?, ?, ?, ?, ?)",
            [round_, received, arrived, pseudonym, sealed_user, RANDOM],
        )
        return int(done.lastrowid)

    def rewrite_upload(self, upload: int, sealed_user: bytes | None) -> None:
        """Note that an upload has random positions, and its user's name if it was sealed anew."""
        self._database.run("UPDATE uploads SET layout=? WHERE id=?", [RANDOM, upload])
        if sealed_user is not None:
            self._database.run("UPDATE uploads SET sealed_user=? WHERE id=?", [sealed_user, upload])

    def delete_upload(self, upload: int) -> None:
        """Delete an upload of which nothing is left; its pieces and blocks must be deleted before."""
        self._database.run("DELETE FROM uploads WHERE id=?", [upload])

    # Blocks

    def blocks(self) -> list[tuple[bytes, int]]:
        """Name and upload of every block."""
        return [(bytes(name), upload) for name, upload in self._database.rows("SELECT key, upload FROM blocks")]

    def block_names(self, upload: int) -> list[bytes]:
        """Return the names of an upload's blocks, in order."""
        rows = self._database.rows("SELECT key FROM blocks WHERE upload=? ORDER BY part", [upload])
        return [bytes(name) for (name,) in rows]

    def add_blocks(self, upload: int, blocks: Iterable[tuple[bytes, int]]) -> None:
        """Add the blocks of an upload, in order: name and size in bytes of each."""
        rows = [(name, upload, part, size) for part, (name, size) in enumerate(blocks)]
        self._database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)

    def replace_blocks(self, upload: int, names: Sequence[bytes], sizes: Mapping[bytes, int]) -> None:
        """Let an upload have these blocks; `sizes` has the bytes of those that it did not have before."""
        before, kept = self._database.rows("SELECT key, part FROM blocks WHERE upload=?", [upload]), set(names)
        parts = {bytes(name): part for name, part in before if bytes(name) in kept}
        self._database.many("DELETE FROM blocks WHERE key=?", [[name] for name, _ in before if bytes(name) not in kept])
        rows, last = [], -1
        for name in names:
            last = parts.get(name, last + 1)  # what takes the place of a block has its number, or a lower one
            if name not in parts:
                rows.append((name, upload, last, sizes[name]))
        self._database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)

    def stored_bytes(self) -> int:
        """Return how many bytes the samples take on the disk, staged ones included."""
        (size,) = self._database.row(
            "SELECT coalesce(sum(bytes), 0) FROM (SELECT bytes FROM blocks UNION ALL SELECT bytes FROM staged)"
        )
        return int(size)

    # Pieces

    def pieces_of_upload(self, upload: int) -> list[tuple[SegmentKey, Positions]]:
        """Return segment and positions of an upload's pieces, quarantined ones included."""
        rows = self._database.rows(
            "SELECT shard, round, slice, positions FROM pieces WHERE upload=? ORDER BY shard, slice", [upload]
        )
        return [(SegmentKey(*key), pos.from_runs(bytes(held))) for *key, held in rows]

    def pieces_of_segment(self, key: SegmentKey, *, quarantined: bool) -> list[tuple[int, int, Positions]]:
        """Return upload, pseudonym and positions of a segment's pieces; those in quarantine only with `quarantined`."""
        rows = self._database.rows(
            "SELECT upload, pseudonym, positions FROM pieces JOIN uploads ON upload=id "
            "WHERE (pieces.shard, pieces.round, pieces.slice)=(?, ?, ?) AND (quarantined IS NULL OR ?)",
            [*key, quarantined],
        )
        return [(upload, pseudonym, pos.from_runs(bytes(held))) for upload, pseudonym, held in rows]

    def add_pieces(self, pieces: Iterable[tuple[int, PieceRow]]) -> None:
        """Add pieces, each with the id of its upload."""
        self._database.many(
            "INSERT INTO pieces (upload, shard, round, slice, positions, quarantined, verdict) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [[id_, *row.key, pos.runs(row.positions), row.quarantined, row.verdict] for id_, row in pieces],
        )

    def replace_pieces(self, upload: int, pieces: Iterable[PieceRow]) -> None:
        """Let an upload have these pieces."""
        self._database.run("DELETE FROM pieces WHERE upload=?", [upload])
        self.add_pieces((upload, piece) for piece in pieces)

    def move_piece(self, upload: int, key: SegmentKey, positions: Positions) -> None:
        """Give a piece other positions."""
        self._database.run(
            "UPDATE pieces SET positions=? WHERE (upload, shard, slice)=(?, ?, ?)",
            [pos.runs(positions), upload, key.shard, key.slice],
        )

    # Quarantine

    def quarantined(self) -> list[QuarantineRow]:
        """Return all pieces in quarantine."""
        rows = self._database.rows(
            "SELECT shard, pieces.round, slice, pseudonym, upload, quarantined, verdict FROM pieces "
            "JOIN uploads ON upload=id WHERE quarantined IS NOT NULL"
        )
        return [
            QuarantineRow(SegmentKey(shard, round_, slice_), pseudonym, upload, since, verdict or "")
            for shard, round_, slice_, pseudonym, upload, since, verdict in rows
        ]

    def set_aside(self, key: SegmentKey, upload: int, since: float, verdict: str) -> None:
        """Put a piece into quarantine."""
        self._database.run(
            f"UPDATE pieces SET quarantined=?, verdict=? WHERE {_SEGMENT} AND upload=?", [since, verdict, *key, upload]
        )

    def give_back(self, keys: Iterable[SegmentKey]) -> None:
        """End the quarantine of all pieces of these segments."""
        for key in keys:
            self._database.run(f"UPDATE pieces SET quarantined=NULL, verdict=NULL WHERE {_SEGMENT}", list(key))

    # Segments

    def segments(self) -> list[SegmentRow]:
        """Return all segments with retained samples, in order."""
        rows = self._database.rows(
            "SELECT shard, round, slice, trained, samples FROM segments ORDER BY shard, round, slice"
        )
        return [
            SegmentRow(SegmentKey(shard, round_, slice_), bool(trained), samples)
            for shard, round_, slice_, trained, samples in rows
            if samples
        ]

    def is_trained(self, key: SegmentKey) -> bool:
        """Return whether a segment was trained before."""
        (trained,) = self._database.row(f"SELECT trained FROM segments WHERE {_SEGMENT}", list(key))
        return bool(trained)

    def segment_seal(self, key: SegmentKey) -> tuple[bytes, bytes | None] | None:
        """Return the name of a segment's key, and the digests that are sealed under it; None if it has no key."""
        row = self._database.row(f"SELECT key, sealed_digests FROM segments WHERE {_SEGMENT}", list(key))
        if row is None or row[0] is None:
            return None
        return bytes(row[0]), None if row[1] is None else bytes(row[1])

    def add_segments(self, segments: Iterable[tuple[SegmentKey, int, bytes | None, bytes | None]]) -> None:
        """Add segments that are not trained yet: samples of each, and its key's name and sealed digests, if any."""
        self._database.many(
            "INSERT INTO segments (shard, round, slice, trained, samples, key, sealed_digests) "
            "VALUES (?, ?, ?, 0, ?, ?, ?)",
            [[*key, samples, name, sealed] for key, samples, name, sealed in segments],
        )

    def update_segments(self, segments: Mapping[SegmentKey, tuple[int, bytes | None, bytes | None] | None]) -> None:
        """Update touched segments, or delete empty ones.

        Parameters
        ----------
        segments
            By segment: samples left, its new key's name and its sealed digests; None if it is empty.
        """
        for key, row in segments.items():
            if row is None:
                self._database.run(f"DELETE FROM segments WHERE {_SEGMENT}", list(key))
            else:
                statement = f"UPDATE segments SET samples=?, key=?, sealed_digests=? WHERE {_SEGMENT}"
                self._database.run(statement, [*row, *key])

    def segments_without_digests(self, limit: int) -> list[SegmentKey]:
        """Return segments that have no list of digests, at most so many."""
        rows = self._database.rows("SELECT shard, round, slice FROM segments WHERE key IS NULL LIMIT ?", [limit])
        return [SegmentKey(*key) for key in rows]

    def set_digests(self, digests: Iterable[tuple[SegmentKey, bytes, bytes]]) -> None:
        """Store the lists of digests of segments: key's name and sealed list of each."""
        self._database.many(
            f"UPDATE segments SET key=?, sealed_digests=? WHERE {_SEGMENT}",
            [[name, sealed, *key] for key, name, sealed in digests],
        )

    # History

    def add_arrivals(self, round_: int, rows: Iterable[tuple[int, int, int, bytes]]) -> None:
        """Note what a round brought: pseudonym, samples, shard and sealed classes of each piece."""
        self._database.many(
            "INSERT INTO history (round, kind, pseudonym, samples, shard, sealed_classes) "
            "VALUES (?, 'add', ?, ?, ?, ?)",
            [[round_, *row] for row in rows],
        )

    def add_deletions(self, round_: int, pseudonym: int, of_round: int, samples: Mapping[int, int]) -> None:
        """Note what an upload lost.

        Parameters
        ----------
        round_
            The round in which it was deleted.
        pseudonym, of_round
            The upload.
        samples
            How many samples were deleted, by shard.
        """
        self._database.many(
            "INSERT INTO history (kind, round, pseudonym, of_round, samples, shard) VALUES ('forget', ?, ?, ?, ?, ?)",
            [[round_, pseudonym, of_round, count, shard] for shard, count in samples.items() if count],
        )

    def forget_classes(self, pseudonym: int, round_: int) -> None:
        """Delete the classes of an upload from the history.

        The history has the classes of what arrived: together with what is left they would give those of what was
        deleted.
        """
        where = "kind='add' AND pseudonym=? AND round=?"
        self._database.run(f"UPDATE history SET sealed_classes=NULL WHERE {where}", [pseudonym, round_])

    # Names

    def last_pseudonym(self) -> int:
        """Return the highest pseudonym that was ever given; 0 before the first."""
        return int(self._database.get("pseudonyms", 0))

    def begin_round(self, round_: int, pseudonyms: Iterable[Any]) -> None:
        """Note the number of the round that is recorded, and the pseudonyms that it uses."""
        self._database.set("round", round_)
        self._database.set("pseudonyms", max([self.last_pseudonym(), *pseudonyms]))

    def last_round(self) -> int:
        """Return the last round that was recorded; 0 before the first."""
        return int(self._database.get("round", 0))
