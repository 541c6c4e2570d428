"""The data keys in memory: rows of 16 bytes name and 32 bytes key, as they are stored."""

from collections.abc import Iterable, Iterator

from cause.errors import VaultError
from cause.vault.sealing import KEY_BYTES

NAME_BYTES = 16
ROW_BYTES = NAME_BYTES + KEY_BYTES


class KeyTable:
    """Keys by name, and the bytes of all of them at hand, so that rewriting them costs no loop over the rest.

    >>> table = KeyTable(b"a" * 16 + b"1" * 32 + b"b" * 16 + b"2" * 32)
    >>> rest = table.without([b"a" * 16])
    >>> len(rest), rest.key(b"b" * 16) == b"2" * 32, b"a" * 16 in rest
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

    def without(self, names: Iterable[bytes]) -> "KeyTable":
        """A table of the other keys; this one stays as it is. Holes are filled with the last rows."""
        rest = KeyTable.__new__(KeyTable)
        rest.rows, rest._row_of = bytearray(self.rows), dict(self._row_of)
        for name in set(names):
            row = rest._row_of.pop(name)
            last = rest.rows[-ROW_BYTES:]
            del rest.rows[-ROW_BYTES:]
            if row * ROW_BYTES < len(rest.rows):
                rest.rows[row * ROW_BYTES : (row + 1) * ROW_BYTES] = last
                rest._row_of[bytes(last[:NAME_BYTES])] = row
        return rest

    def clear(self) -> None:
        """Overwrite the keys in memory: this copy of them, which is all that Python lets one reach."""
        self.rows[:] = bytes(len(self.rows))
        self._row_of.clear()


def _names(rows: bytes | bytearray) -> Iterator[bytes]:
    return (bytes(rows[start : start + NAME_BYTES]) for start in range(0, len(rows), ROW_BYTES))
