"""The tables of staged uploads, and of calls that are remembered so that a repetition changes nothing."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cause.device.store.database import Database

LEARN = "learn:"
"""How the ids of calls of `learn` begin; those of the service do not."""


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
        """All blocks of staged uploads, in the order in which they came."""
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
        """What a call led to, if it is remembered."""
        row = self._database.row("SELECT id, samples, round FROM calls WHERE id=?", [id_])
        return None if row is None else CallRow(*row)

    def add_calls(self, at: float, calls: Sequence[tuple[str, int]], round_: int | None = None) -> None:
        """Remember calls: id and samples of each, and the round that took the samples in."""
        rows = [[id_, at, samples, round_] for id_, samples in calls]
        self._database.many("INSERT INTO calls VALUES (?, ?, ?, ?)", rows)

    def taken_in(self, id_: str, round_: int) -> None:
        """Note which round took the upload of a call in."""
        self._database.run("UPDATE calls SET round=? WHERE id=?", [round_, id_])

    def set_samples(self, id_: str, samples: int) -> None:
        """Note how many samples of a call are left."""
        self._database.run("UPDATE calls SET samples=? WHERE id=?", [samples, id_])

    def forget_calls(self, before: float) -> None:
        """Delete the calls of before a moment."""
        self._database.run("DELETE FROM calls WHERE at < ?", [before])

    def forget_learned(self, round_: int) -> None:
        """Delete the call of `learn` that made a round: its idempotency key then means a new round."""
        self._database.run(f"DELETE FROM calls WHERE round=? AND id LIKE '{LEARN}%'", [round_])
