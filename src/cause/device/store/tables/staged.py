"""The tables of staged uploads, and of calls that are remembered so that a repetition changes nothing."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cause.device.store.database import Database

LEARN = "learn:"
"""How the ids of calls of `learn` begin; those of the service do not."""
PART = "part:"
"""How the ids of rows begin that say which upload of a round the samples of a call are part of: part:UPLOAD:CALL."""


class StagedRow(NamedTuple):
    """A block of a staged upload."""

    name: bytes
    upload: str
    """The id of the call that brought it."""
    part: int
    samples: int
    size: int
    """In bytes."""
    sealed_user: bytes
    arrived: float


class CallRow(NamedTuple):
    """What a call with an id led to."""

    id: str
    samples: int
    round: int | None


class StagedTables:
    """Staged uploads and remembered calls. Every method raises HomeError if the ledger cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self) -> list[StagedRow]:
        """Return all blocks of staged uploads, in the order in which they came."""
        rows = self._database.rows(
            "SELECT key, upload, part, samples, bytes, sealed_user, arrived FROM staged ORDER BY rowid"
        )
        return [
            StagedRow(bytes(name), up, part, n, size, bytes(user), at) for name, up, part, n, size, user, at in rows
        ]

    def add(self, rows: Iterable[StagedRow]) -> None:
        """Add blocks of staged uploads."""
        self._database.many(
            "INSERT INTO staged (key, upload, part, samples, bytes, sealed_user, arrived) VALUES (?, ?, ?, ?, ?, ?, ?)",
            list(rows),
        )

    def delete(self, upload: str) -> None:
        """Delete a staged upload."""
        self._database.run("DELETE FROM staged WHERE upload=?", [upload])

    def call(self, id_: str) -> CallRow | None:
        """Return what a call led to, if it is remembered."""
        row = self._database.row("SELECT id, samples, round FROM calls WHERE id=?", [id_])
        return None if row is None else CallRow(*row)

    def add_calls(self, at: float, calls: Sequence[tuple[str, int]], round_: int | None = None) -> None:
        """Remember calls: id and samples of each, and the round that took the samples in."""
        rows = [[id_, at, samples, round_] for id_, samples in calls]
        self._database.many("INSERT INTO calls VALUES (?, ?, ?, ?)", rows)

    def taken_in(self, id_: str, round_: int, upload: int | None) -> None:
        """Note which round took the upload of a call in, and as a part of which of its uploads."""
        self._database.run("UPDATE calls SET round=? WHERE id=?", [round_, id_])
        if upload is not None:
            self._database.run(
                "INSERT INTO calls SELECT ?, at, 0, round FROM calls WHERE id=?", [f"{PART}{upload}:{id_}", id_]
            )

    def set_samples(self, id_: str, samples: int) -> None:
        """Note how many samples of a call are left."""
        self._database.run("UPDATE calls SET samples=? WHERE id=?", [samples, id_])

    def forget_calls(self, before: float) -> None:
        """Delete the calls of before a moment."""
        self._database.run("DELETE FROM calls WHERE at < ?", [before])

    def forgotten(self, upload: int, round_: int) -> None:
        """Note that samples of an upload were forgotten: no call may confirm any more that it brought them.

        The call of `learn` that made the round is deleted, so that its idempotency key then means a new round. Calls
        that staged a part of the upload have no samples left; a repetition of theirs changes nothing, since it would
        bring back what was forgotten.

        Parameters
        ----------
        upload
            The number of the upload in its table.
        round_
            Its round. If an earlier version closed it, no row says which upload a call was part of: then all calls that
            staged samples for the round have none left.
        """
        database, part = self._database, f"{PART}{upload}:"
        database.run(f"DELETE FROM calls WHERE round=? AND id LIKE '{LEARN}%'", [round_])
        database.run(
            "UPDATE calls SET samples=0 WHERE id IN (SELECT substr(id, ?) FROM calls WHERE id >= ? AND id < ?)",
            [len(part) + 1, part, f"{PART}{upload};"],
        )
        database.run(
            "UPDATE calls SET samples=0 WHERE round=? "
            f"AND NOT EXISTS (SELECT 1 FROM calls WHERE round=? AND id LIKE '{PART}%')",
            [round_, round_],
        )
