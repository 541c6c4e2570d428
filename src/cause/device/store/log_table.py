"""The tables of the receipts' log: its entries (`leaves`) and the hashes of its Merkle tree (`nodes`)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cause.device.log import Node
from cause.device.store.database import Database

_ENTRY = "SELECT request, kind, body FROM leaves WHERE number=?"
NEWEST = 2**62
"""A number above that of every entry."""


class Entry(NamedTuple):
    """An entry of the log."""

    request: str
    kind: str
    body: bytes
    """The signed note."""


class LogTable:
    """Entries and nodes of a log. Every method raises HomeError if the ledger cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self) -> int:
        """Return how many entries there are."""
        (size,) = self._database.row("SELECT count(*) FROM leaves")
        return int(size)

    def node(self, level: int, index: int) -> bytes | None:
        """Return a hash of the tree; None if it is not stored."""
        row = self._database.row("SELECT hash FROM nodes WHERE (level, number)=(?, ?)", [level, index])
        return None if row is None else bytes(row[0])

    def entry(self, number: int) -> Entry | None:
        """Return an entry by its number; None if there is none."""
        row = self._database.row(_ENTRY, [number])
        return None if row is None else Entry(row[0], row[1], bytes(row[2]))

    def bodies(self, end: int) -> list[tuple[int, Any]]:
        """Return number and body of all entries before one, in order, as stored: a damaged ledger may hold anything."""
        rows = self._database.rows("SELECT number, body FROM leaves WHERE number<? ORDER BY number", [end])
        return [(number, body) for number, body in rows]

    def bodies_from(self, first: int, most: int | None = None) -> list[tuple[int, bytes]]:
        """Return number and body of the entries from one on, in order; at most so many."""
        rows = self._database.rows(
            "SELECT number, body FROM leaves WHERE number>=? ORDER BY number LIMIT ?",
            [first, -1 if most is None else most],
        )
        return [(number, bytes(body)) for number, body in rows]

    def newest_bodies(self, before: int | None, limit: int) -> list[tuple[int, bytes]]:
        """Return number and body of the entries before one, the newest first; at most so many."""
        rows = self._database.rows(
            "SELECT number, body FROM leaves WHERE number < ? ORDER BY number DESC LIMIT ?",
            [NEWEST if before is None else before, limit],
        )
        return [(number, bytes(body)) for number, body in rows]

    def first_of_kind(self, kind: str, before: int) -> tuple[int, bytes] | None:
        """Return number and body of the first entry of a kind, if it comes before a number."""
        row = self._database.row(
            "SELECT number, body FROM leaves WHERE kind=? AND number<? ORDER BY number LIMIT 1", [kind, before]
        )
        return None if row is None else (row[0], bytes(row[1]))

    def numbers(self, request: str) -> list[int]:
        """Return the entries of a request."""
        rows = self._database.rows("SELECT number FROM leaves WHERE request=? ORDER BY number", [request])
        return [number for (number,) in rows]

    def add(self, number: int, entry: Entry, nodes: Sequence[Node]) -> None:
        """Add an entry, and the nodes that it completes; in a transaction."""
        self._database.run("INSERT INTO leaves VALUES (?, ?, ?, ?)", [number, *entry])
        self._add_nodes(nodes)

    def replace_nodes(self, nodes: Sequence[Node]) -> None:
        """Exchange all nodes; in a transaction."""
        self._database.run("DELETE FROM nodes")
        self._add_nodes(nodes)

    def _add_nodes(self, nodes: Sequence[Node]) -> None:
        rows = [[node.level, node.index, node.hash] for node in nodes]
        self._database.many("INSERT INTO nodes VALUES (?, ?, ?)", rows)


def raw_entry(connection: Any, number: int) -> tuple[Any, Any, Any] | None:
    """Return an entry as a damaged ledger has it, read over a plain connection; None if there is none.

    Raises
    ------
    sqlite3.Error
        If the ledger cannot be read.
    """
    row: tuple[Any, Any, Any] | None = connection.execute(_ENTRY, [number]).fetchone()
    return row
