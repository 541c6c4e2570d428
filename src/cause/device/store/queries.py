"""The questions that the rest of the program asks of a home's tables, and the few rows that it writes itself.

SQL is written in `cause.device.store` alone; the receipts' log has its statements in `cause.device.store.log_table`.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from cause.device.store.database import Database
from cause.device.store.layout import BLOCKS, SUB_MODELS
from cause.engine.samples import SegmentKey

NEWEST = 2**62
"""A number above every row of a table, to begin a list with the newest."""
_IN_EFFECT = "EXISTS (SELECT 1 FROM leaves WHERE request=requests.id AND kind='effect')"
"""A request is in effect when its receipt is signed: only then are the keys destroyed."""
_REQUEST = (
    f"SELECT rowid, id, received, deadline, CASE WHEN {_IN_EFFECT} THEN effective END, repaired, samples, covered "
    "FROM requests"
)
_STATES = {
    "accepted": f"NOT {_IN_EFFECT}",
    "in_effect": f"{_IN_EFFECT} AND repaired IS NULL",
    "repaired": "repaired IS NOT NULL",
}
_UNREPAIRED = "effective IS NOT NULL AND repaired IS NULL"


class RequestRow(NamedTuple):
    """A request as lists of requests show it. Times are seconds since 1970."""

    number: int
    """Its place in the list, which grows with each request."""
    id: str
    received: float
    deadline: float
    effective: float | None
    """When it took effect; None until its receipt is signed."""
    repaired: float | None
    samples: int | None
    covered: str | None
    """What it touched, as JSON; None until it takes effect."""


class ServedRow(NamedTuple):
    """What a receipt says of its request. Times are seconds since 1970."""

    received: float
    deadline: float
    effective: float
    destroyed: float
    repaired: float | None
    batch: str
    """The first request of those that were served together."""
    samples: int
    covered: str
    """What it touched, as JSON."""
    nonce: str | None


class OpenRequestRow(NamedTuple):
    """A request that is not repaired yet."""

    id: str
    received: float
    effective: float | None
    deadline: float
    samples: int | None


class BehindRow(NamedTuple):
    """Since when a shard waits for training, and the type of the error that its last training ended with."""

    since: float
    problem: str | None


class ExportRow(NamedTuple):
    """An exported copy of the heads."""

    id: str
    made: float
    form: str
    heads: tuple[SegmentKey, ...]
    tainted: float | None
    """When a request made it stale; None if it may be used."""


class HistoryRow(NamedTuple):
    """One line of the history: samples of one upload that arrived at, or left, one shard."""

    round: int
    kind: str
    """`add` or `forget`."""
    pseudonym: int
    of_round: int | None
    """The round in which the samples came that were forgotten."""
    samples: int
    shard: int
    sealed_classes: bytes | None


class RoundRow(NamedTuple):
    """What a round brought and cost."""

    users: int = 0
    samples: int = 0
    closed: float | None = None
    """When it was closed; None if nothing of it is retained."""
    retrained: int = 0


class EvaluationRow(NamedTuple):
    """A stored evaluation; `text` is its JSON."""

    id: int
    at: float
    round: int
    text: str


class StoredRows(NamedTuple):
    """The rows that `cause.device.fsck` compares with keys and files, all of one moment."""

    blocks: list[tuple[bytes, int]]
    """Key and upload."""
    staged: list[tuple[bytes, str]]
    """Key and upload."""
    uploads: list[tuple[int, bytes]]
    """Id and sealed name of the user."""
    pieces: list[tuple[int, bytes]]
    """Upload and positions, as runs."""
    sub_models: list[tuple[int, int, bytes, bytes]]
    """Shard, round, key and sealed identity."""
    requests: list[tuple[str, bytes | None, float | None]]
    """Id, key and when it took effect: those that wait, or still have a key."""
    dangling: list[tuple[str, int, str, int]]
    """Rows that name a row that is not there, as SQLite's `foreign_key_check` lists them."""


class Queries:
    """All questions about the tables of one home. Each method reads, unless it says that it belongs in a transaction.

    Every method raises HomeError if the ledger cannot be read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # Requests

    def is_request(self, id_: str) -> bool:
        """Return whether a request with this id was accepted."""
        return self._database.row("SELECT 1 FROM requests WHERE id=?", [id_]) is not None

    def request(self, id_: str) -> RequestRow | None:
        """Return a request by its id."""
        row = self._database.row(f"{_REQUEST} WHERE id=?", [id_])
        return None if row is None else RequestRow(*row)

    def requests(self, state: str | None, before: int | None, limit: int) -> list[RequestRow]:
        """Return a page of requests, the newest first.

        Parameters
        ----------
        state
            Only those that are `accepted`, `in_effect` or `repaired`.
        before
            Only those with a lower number.
        limit
            At most so many.
        """
        rules, values = ["1"], []
        if state is not None:
            rules.append(_STATES[state])
        if before is not None:
            rules.append("rowid < ?")
            values.append(before)
        rows = self._database.rows(
            f"{_REQUEST} WHERE {' AND '.join(rules)} ORDER BY rowid DESC LIMIT ?", [*values, limit]
        )
        return [RequestRow(*row) for row in rows]

    def request_samples(self, id_: str) -> int:
        """Return how many samples a request that is in effect took."""
        (samples,) = self._database.row("SELECT samples FROM requests WHERE id=?", [id_])
        return int(samples)

    def open_requests(self) -> list[OpenRequestRow]:
        """Return the requests that are not repaired yet, by deadline."""
        rows = self._database.rows(
            "SELECT id, received, effective, deadline, samples FROM requests WHERE repaired IS NULL ORDER BY deadline"
        )
        return [OpenRequestRow(*row) for row in rows]

    def open_deadlines(self) -> list[float]:
        """Return the deadlines of the requests that are not repaired yet."""
        return [deadline for (deadline,) in self._database.rows("SELECT deadline FROM requests WHERE repaired IS NULL")]

    def has_unserved(self) -> bool:
        """Return whether a request was accepted and has not taken effect."""
        return self._database.row("SELECT 1 FROM requests WHERE effective IS NULL") is not None

    def unrepaired(self) -> list[str]:
        """Return the ids of the requests that took effect and are not repaired yet."""
        return [id_ for (id_,) in self._database.rows(f"SELECT id FROM requests WHERE {_UNREPAIRED}")]

    def shards_of_unrepaired(self) -> list[set[int]]:
        """Return the shards that each request touched that took effect and is not repaired yet."""
        rows = self._database.rows(f"SELECT covered FROM requests WHERE {_UNREPAIRED}")
        return [set(json.loads(covered)["shards"]) for (covered,) in rows]

    def is_repaired(self, id_: str) -> bool:
        """Return whether an accepted request is repaired."""
        (repaired,) = self._database.row("SELECT repaired FROM requests WHERE id=?", [id_])
        return repaired is not None

    # Receipts: the requests that need one, and the keys that receipts commit with

    def unsigned(self) -> list[tuple[str, str]]:
        """Return the receipts that are still to be signed: request and kind (`effect` or `repair`)."""
        rows = self._database.rows(  # the index is of signed<2, and SQLite does not see that signed=0 is part of it
            "SELECT id, 'effect' FROM requests WHERE signed<2 AND signed=0 AND effective IS NOT NULL UNION ALL "
            "SELECT id, 'repair' FROM requests WHERE signed<2 AND repaired IS NOT NULL"
        )
        return [(id_, kind) for id_, kind in rows]

    def served(self, id_: str) -> ServedRow:
        """Return what a receipt says of a request that is in effect."""
        row = self._database.row(
            "SELECT received, deadline, effective, destroyed, repaired, batch, samples, covered, nonce FROM requests "
            "WHERE id=?",
            [id_],
        )
        return ServedRow(*row)

    def mark_destroyed(self, ids: Iterable[str], now: float) -> None:
        """Note when the keys of requests were destroyed, unless it is noted; in a transaction."""
        for id_ in ids:
            self._database.run("UPDATE requests SET destroyed=? WHERE id=? AND destroyed IS NULL", [now, id_])

    def mark_signed(self, levels: Sequence[tuple[str, int]]) -> None:
        """Note which receipts of requests are in the log, in a transaction: 1 of the effect, 2 of the repair too."""
        self._database.many("UPDATE requests SET signed=? WHERE id=?", [[level, id_] for id_, level in levels])

    def manifest_key(self, shard: int, request: str | None = None) -> bytes | None:
        """Return the name of the key that commits to a shard's data, for one request or any; None if there is none."""
        if request is None:
            row = self._database.row("SELECT key FROM manifests WHERE shard=?", [shard])
        else:
            row = self._database.row("SELECT key FROM manifests WHERE (request, shard)=(?, ?)", [request, shard])
        return None if row is None else bytes(row[0])

    def replace_manifest_keys(self, old: Sequence[bytes], request: str, new: Iterable[tuple[int, bytes]]) -> None:
        """Exchange the names of keys that commit to shards' data; in a transaction.

        Parameters
        ----------
        old
            The names that go.
        request
            The request whose receipts use the new ones.
        new
            Shards, each with the name of its new key.
        """
        self._database.many("DELETE FROM manifests WHERE key=?", [[name] for name in old])
        self._database.many("INSERT INTO manifests VALUES (?, ?, ?)", [[request, shard, name] for shard, name in new])

    def sealed_identity(self, name: bytes) -> bytes:
        """Return the sealed identity of a sub-model, by its name."""
        (sealed,) = self._database.row("SELECT sealed_identity FROM sub_models WHERE key=?", [name])
        return bytes(sealed)

    # Rounds

    def rounds(self, first: int, last: int) -> dict[int, RoundRow]:
        """Return what rounds brought and cost, by number; a round of which nothing is on record is left out."""
        span, rounds = [first, last], dict[int, RoundRow]()
        for number, users, samples in self._database.rows(
            "SELECT round, count(DISTINCT pseudonym), sum(samples) FROM history WHERE kind='add' AND "
            "round BETWEEN ? AND ? GROUP BY round",
            span,
        ):
            rounds[number] = RoundRow(users, samples)
        for number, closed in self._database.rows(
            "SELECT round, min(received) FROM uploads WHERE round BETWEEN ? AND ? GROUP BY round", span
        ):
            rounds[number] = rounds.get(number, RoundRow())._replace(closed=closed)
        for number, samples in self._database.rows(
            "SELECT round, samples FROM retrained WHERE round BETWEEN ? AND ?", span
        ):
            rounds[number] = rounds.get(number, RoundRow())._replace(retrained=samples)
        return rounds

    def retrained(self) -> list[tuple[int, int]]:
        """Return how many samples were trained again in each round that has any: (round, samples), by round."""
        return [(number, samples) for number, samples in self._database.rows(
            "SELECT round, samples FROM retrained ORDER BY round"
        )]  # fmt: skip

    def retrained_total(self) -> int:
        """Return how many samples were trained again in all rounds."""
        (samples,) = self._database.row("SELECT coalesce(sum(samples), 0) FROM retrained")
        return int(samples)

    def last_history(self) -> int:
        """Return the number of the history's newest line; 0 if there is none."""
        (number,) = self._database.row("SELECT coalesce(max(seq), 0) FROM history")
        return int(number)

    def history(self) -> list[HistoryRow]:
        """Return all lines of the history, in order."""
        rows = self._database.rows(
            "SELECT round, kind, pseudonym, of_round, samples, shard, sealed_classes FROM history ORDER BY seq"
        )
        return [HistoryRow(*row) for row in rows]

    def blocks_by_upload(self) -> dict[tuple[int, int], list[bytes]]:
        """Return the names of each upload's blocks, in order, by (round, pseudonym)."""
        blocks: dict[tuple[int, int], list[bytes]] = {}
        for round_, pseudonym, name in self._database.rows(
            "SELECT round, pseudonym, key FROM blocks JOIN uploads ON upload=id ORDER BY upload, part"
        ):
            blocks.setdefault((round_, pseudonym), []).append(bytes(name))
        return blocks

    def bytes_of(self, pseudonym: int) -> int:
        """Return how many bytes the samples of a user's rounds take on the disk."""
        (size,) = self._database.row(
            "SELECT coalesce(sum(bytes), 0) FROM uploads JOIN blocks ON upload=id WHERE pseudonym=?", [pseudonym]
        )
        return int(size)

    # Samples that become too old

    def pieces_upto_round(self, last: float) -> list[tuple[int, int, bytes]]:
        """Return the pieces of all uploads of rounds up to one: pseudonym, round and positions, as runs."""
        return self._pieces("round <= ?", last)

    def pieces_before(self, moment: float) -> list[tuple[int, int, bytes]]:
        """Return the pieces of all uploads that arrived before a moment: pseudonym, round and positions, as runs."""
        return self._pieces("arrived < ?", moment)

    def _pieces(self, rule: str, limit: float) -> list[tuple[int, int, bytes]]:
        rows = self._database.rows(
            "SELECT pseudonym, uploads.round, positions FROM uploads JOIN pieces ON upload=uploads.id "
            f"WHERE uploads.{rule}",
            [limit],
        )
        return [(pseudonym, round_, bytes(runs)) for pseudonym, round_, runs in rows]

    def staged_samples_before(self, moment: float) -> int:
        """Return how many samples that wait for a round arrived before a moment."""
        (samples,) = self._database.row("SELECT coalesce(sum(samples), 0) FROM staged WHERE arrived < ?", [moment])
        return int(samples)

    def first_arrival(self) -> float | None:
        """Return when the oldest sample arrived, staged or not; None if there is none."""
        (first,) = self._database.row(
            "SELECT min(first) FROM (SELECT min(arrived) AS first FROM uploads UNION ALL "
            "SELECT min(arrived) FROM staged)"
        )
        return None if first is None else float(first)

    # Shards, exports, evaluations

    def behind(self) -> dict[int, BehindRow]:
        """Return the shards that wait for training, with since when and why."""
        rows = self._database.rows("SELECT shard, since, problem FROM behind")
        return {shard: BehindRow(since, problem) for shard, since, problem in rows}

    def exports(self) -> list[ExportRow]:
        """Return all exports, the oldest first."""
        rows = self._database.rows("SELECT id, made, form, heads, tainted FROM exports ORDER BY made")
        return [_export(*row) for row in rows]

    def newest_exports(self, before: int | None, limit: int) -> list[tuple[int, ExportRow]]:
        """Return exports with their numbers, the newest first: at most `limit`, of those below the number `before`."""
        rows = self._database.rows(
            "SELECT rowid, id, made, form, heads, tainted FROM exports WHERE rowid < ? ORDER BY rowid DESC LIMIT ?",
            [2**62 if before is None else before, limit],
        )
        return [(number, _export(*row)) for number, *row in rows]

    def add_export(self, id_: str, made: float, form: str, heads: Iterable[SegmentKey]) -> None:
        """Record an export; in a transaction.

        Parameters
        ----------
        id_
            Its id.
        made
            When, in seconds since 1970.
        form
            `safetensors`, `onnx` or `npz`.
        heads
            The sub-models that it holds.
        """
        listed = json.dumps([list(key) for key in heads])
        self._database.run("INSERT INTO exports VALUES (?, ?, ?, ?, NULL)", [id_, made, form, listed])

    def delete_export(self, id_: str) -> None:
        """Delete the record of an export that was not written; in a transaction."""
        self._database.run("DELETE FROM exports WHERE id=?", [id_])

    def evaluations(self, before: int | None, limit: int) -> list[EvaluationRow]:
        """Return a page of evaluations, the newest first: those with a lower id than `before`, at most `limit`."""
        rows = self._database.rows(
            "SELECT id, at, round, told FROM evaluations WHERE id < ? ORDER BY id DESC LIMIT ?",
            [NEWEST if before is None else before, limit],
        )
        return [EvaluationRow(*row) for row in rows]

    def add_evaluation(self, at: float, round_: int, text: str) -> int:
        """Store an evaluation and return its id; in a transaction."""
        done = self._database.run("INSERT INTO evaluations (at, round, told) VALUES (?, ?, ?)", [at, round_, text])
        return int(done.lastrowid)

    # Everything

    def stored_rows(self) -> StoredRows:
        """Return all rows that name a key or a file, in one short read: others can clean their log after it."""
        rows = self._database.rows
        with self._database.reading():
            return StoredRows(
                rows("SELECT key, upload FROM blocks ORDER BY upload, part"),
                rows("SELECT key, upload FROM staged ORDER BY upload, part"),
                rows("SELECT id, sealed_user FROM uploads"),
                rows("SELECT upload, positions FROM pieces"),
                rows("SELECT shard, round, key, sealed_identity FROM sub_models"),
                rows("SELECT id, key, effective FROM requests WHERE effective IS NULL OR key IS NOT NULL"),
                rows("PRAGMA foreign_key_check"),
            )

    def has(self, table: str, value: bytes | int, column: str = "key") -> bool:
        """Return whether a table has a row with this value in a column. Table and column must not come from a user."""
        return self._database.row(f"SELECT 1 FROM {table} WHERE {column}=?", [value]) is not None


def _export(id_: str, made: float, form: str, heads: str, tainted: float | None) -> ExportRow:
    return ExportRow(id_, made, form, tuple(SegmentKey(*head) for head in json.loads(heads)), tainted)


def file_names(rows: Callable[[str], Iterable[Any]]) -> dict[str, list[bytes]]:
    """Return the names of all sealed files that a ledger names, by folder.

    Parameters
    ----------
    rows
        Runs a query: `Database.rows`, or `execute` of a connection to a copy of a ledger.
    """
    blocks = [
        bytes(name)
        for table in ("blocks", "staged")
        for (name,) in rows(f"SELECT key FROM {table} ORDER BY upload, part")
    ]
    return {BLOCKS: blocks, SUB_MODELS: [bytes(name) for (name,) in rows("SELECT key FROM sub_models ORDER BY slot")]}


def last_round(rows: Callable[[str], Iterable[Any]]) -> int:
    """Return the last round that a ledger has recorded, 0 before the first; `rows` as in `file_names`."""
    return int(next(iter(rows("SELECT value FROM meta WHERE name='round'")), (0,))[0])
