"""The data keys in memory: rows of 16 bytes name and 32 bytes key, as they are stored."""

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cause.errors import VaultError
from cause.vault.sealing import KEY_BYTES

NAME_BYTES = 16
ROW_BYTES = NAME_BYTES + KEY_BYTES
_NAME = struct.Struct(f"{NAME_BYTES}s{KEY_BYTES}x")


@dataclass(frozen=True)
class Removal:
    """The rows without some keys, and who moved into their places."""

    rows: bytearray
    gone: Collection[bytes]
    moved: dict[bytes, int]


class KeyTable:
    """Keys by name, and the bytes of all of them at hand, so that rewriting them costs no loop over the rest.

    >>> table = KeyTable(b"a" * 16 + b"1" * 32 + b"b" * 16 + b"2" * 32)
    >>> removal = table.without([b"a" * 16])
    >>> len(table), len(removal.rows) // ROW_BYTES
    (2, 1)
    >>> table.apply(removal)
    >>> len(table), table.key(b"b" * 16) == b"2" * 32, b"a" * 16 in table
    (1, True, False)
    """

    def __init__(self, rows: bytes | bytearray = b"") -> None:
        self.rows = bytearray(rows)
        self._row_of = {name: row for row, name in enumerate(_names(self.rows))}
        if len(self._row_of) * ROW_BYTES != len(self.rows):
            raise VaultError("two keys of one name: the key file is damaged")

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, name: bytes) -> bool:
        return name in self._row_of

    def names(self) -> frozenset[bytes]:
        return frozenset(self._row_of)

    def key(self, name: bytes) -> bytes:
        row = self._row_of[name]
        return bytes(self.rows[row * ROW_BYTES + NAME_BYTES : (row + 1) * ROW_BYTES])

    def extend(self, rows: bytes) -> None:
        first = len(self)
        self.rows += rows
        self._row_of.update((name, first + number) for number, name in enumerate(_names(rows)))

    def without(self, names: Collection[bytes]) -> Removal:
        """The rows of the other keys; holes are filled with the last ones. The table stays as it is."""
        rows = bytearray(self.rows)
        moved: dict[bytes, int] = {}
        for name in names:
            row = moved.pop(name, self._row_of[name])
            last = rows[-ROW_BYTES:]
            del rows[-ROW_BYTES:]
            if row * ROW_BYTES < len(rows):
                rows[row * ROW_BYTES : (row + 1) * ROW_BYTES] = last
                moved[bytes(last[:NAME_BYTES])] = row
        return Removal(rows, names, moved)

    def apply(self, removal: Removal) -> None:
        """Remove keys and overwrite the rows held so far, the only copy of them that Python lets one reach."""
        old, self.rows = self.rows, removal.rows
        for name in removal.gone:
            del self._row_of[name]
        self._row_of.update(removal.moved)
        old[:] = bytes(len(old))


def _names(rows: bytes | bytearray) -> Iterator[bytes]:
    return (name for (name,) in _NAME.iter_unpack(rows))
