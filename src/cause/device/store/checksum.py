"""One checksum over every row of the ledger, kept up to date by each transaction.

Every row of every table, and every line of the schema, is hashed under a key of the device; the hashes are added modulo
2^256. So a row that is added, changed or deleted changes the sum without a look at any other row, and
`cause doctor`, which adds everything up again, sees whether a bit has changed in any of them. Triggers of the
connection call a function of Python for each changed row; they are made from the tables that are there.
"""

import hmac
import struct
from collections.abc import Callable, Iterable
from typing import Any

from cause.device.advice import doctor_advice
from cause.device.store.connection import LedgerConnection
from cause.device.vault import Vault
from cause.device.vault.sealing import derive
from cause.errors import HomeError

CHECKSUM = "checksum"
"""The row of `meta` that holds the sum, as hexadecimal digits. It is no part of the sum."""
_FUNCTION = "cause_row"
_SCHEMA = "sqlite_schema"
_MODULUS = 1 << 256
_FLOAT = struct.Struct(">d")


def rows_key(vault: Vault, device_key: bytes) -> bytes:
    """Return the key of the rows' hashes."""
    return derive(vault.key(device_key), "rows")


def row_hash(key: bytes, table: str, values: Iterable[Any]) -> int:
    """Return the hash of a row; different rows are always encoded as different bytes.

    >>> row_hash(b"k" * 32, "t", [1, "a"]) == row_hash(b"k" * 32, "t", [1, b"a"])
    False
    """
    parts = [table.encode(), b"\0"]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif isinstance(value, int):
            parts.append(b"i%d;" % value)
        elif isinstance(value, float):
            parts.append(b"f" + _FLOAT.pack(value))
        elif isinstance(value, str):
            text = value.encode(errors="surrogatepass")
            parts += (b"s%d:" % len(text), text)
        else:
            parts += (b"b%d:" % len(value), bytes(value))
    return int.from_bytes(hmac.digest(key, b"".join(parts), "sha256"), "big")


class RowChecksum:
    """The sum of a ledger while a process writes to it.

    Parameters
    ----------
    database
        Its connection gets the triggers.
    """

    def __init__(self, database: LedgerConnection, key: bytes) -> None:
        self._database, self._key = database, key
        self._sum = 0
        self._known = False
        self._begun = False

    def install(self, create_function: Callable[[str, int, Callable[..., None]], None]) -> None:
        """Make the triggers; a ledger without a sum gets one."""
        create_function(_FUNCTION, -1, self._changed)
        for table, columns in tables(self._database):
            old, new = (", ".join(f'{row}."{column}"' for column in columns) for row in ("OLD", "NEW"))
            less, more = (f"{_FUNCTION}({sign}, '{table}', {row})" for sign, row in ((-1, old), (1, new)))
            for event, calls, row in (
                ("INSERT", more, "NEW"),
                ("UPDATE", f"{less}, {more}", "NEW"),
                ("DELETE", less, "OLD"),
            ):
                when = f"WHEN {row}.name <> '{CHECKSUM}'" if table == "meta" else ""
                self._database.run(
                    f'CREATE TEMP TRIGGER "sum {event} {table}" AFTER {event} ON main."{table}" {when} '
                    f"BEGIN SELECT {calls}; END"
                )
        if self._database.get(CHECKSUM) is None:
            with self._database.transaction(counts=True):
                self.invalidate()

    def begin(self) -> None:
        """Begin a transaction, from the sum that the ledger has stored."""
        self._begun = True
        try:
            self._sum, self._known = parse_sum(self._database.get(CHECKSUM)), True
        except HomeError:  # lost or damaged itself: forgetting must not fail for that
            self._known = False

    def end(self) -> None:
        """End a transaction, whether it was committed or rolled back."""
        self._begun = False

    def invalidate(self) -> None:
        """Let the transaction under way compute the sum from all rows when it ends."""
        self._known = False

    def store(self) -> None:
        """Write the sum into the ledger; called before the commit."""
        if not self._known:
            self._sum = total(self._database, self._key)
        self._database.set(CHECKSUM, f"{self._sum:064x}")

    def _changed(self, sign: int, table: str, *values: Any) -> None:
        if not self._begun:
            raise HomeError("the ledger is changed outside a transaction")
        self._sum = (self._sum + sign * row_hash(self._key, table, values)) % _MODULUS


def parse_sum(text: object) -> int:
    """Parse the sum that a ledger has stored."""
    try:
        if not isinstance(text, str) or len(text) != 64:
            raise ValueError
        return int(text, 16)
    except ValueError:
        raise HomeError("the ledger's checksum is damaged", doctor_advice()) from None


def tables(database: LedgerConnection) -> list[tuple[str, list[str]]]:
    """Return the tables of a ledger with their columns."""
    names = [
        name
        for (name,) in database.rows(
            "SELECT name FROM main.sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
    ]
    return [(name, [row[1] for row in database.rows(f'PRAGMA main.table_info("{name}")')]) for name in names]


def total(database: LedgerConnection, key: bytes) -> int:
    """Compute the sum from all rows."""
    sum_ = 0
    for row in database.rows("SELECT type, name, tbl_name, sql FROM main.sqlite_schema"):
        sum_ += row_hash(key, _SCHEMA, row)
    for table, columns in tables(database):
        listed = ", ".join(f'"{column}"' for column in columns)
        where = f" WHERE name <> '{CHECKSUM}'" if table == "meta" else ""
        for row in database.rows(f'SELECT {listed} FROM main."{table}"{where}'):
            sum_ += row_hash(key, table, row)
    return sum_ % _MODULUS


def problem(database: LedgerConnection, key: bytes) -> str | None:
    """Return what is wrong with the rows of a ledger at one moment; None if they are right, or there is no sum yet."""
    with database.reading():
        stored = database.get(CHECKSUM)
        if stored is None:
            return "the ledger has lost its checksum" if database.change else None
        if parse_sum(stored) == total(database, key):
            return None
    return "the rows of the ledger do not add up to its checksum: some of them were changed or damaged"
