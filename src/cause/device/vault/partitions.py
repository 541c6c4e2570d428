"""The data keys in memory: the rows of each page, and an index that finds the page of a name.

The keys of a page are in one `bytearray` and nowhere else. The index takes 12 bytes a key (a sorted array of hashes of
names, and their pages) instead of a Python object; it may point to a page that no longer holds the name, so every
lookup is checked against the rows themselves.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cause.device.vault.keyfile import NAME_BYTES, ROW_BYTES
from cause.device.vault.secrets_in_memory import Buffer, wipe
from cause.errors import VaultError

_MIX = 0x9E3779B97F4A7C15  # spreads names that differ in their last bytes only
_MOST_RECENT = 4096


class Rows:
    """Rows of 16 bytes name and 32 bytes key, as they are stored.

    >>> rows = Rows(bytearray(b"a" * 16 + b"1" * 32 + b"b" * 16 + b"2" * 32))
    >>> bytes(rows.key(b"b" * 16)) == b"2" * 32
    True
    >>> left = rows.without([b"a" * 16])
    >>> len(left), b"a" * 16 in left
    (1, False)
    """

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self._used = len(data)

    def __len__(self) -> int:
        return self._used // ROW_BYTES

    def __contains__(self, name: bytes) -> bool:
        return self._find(name) >= 0

    @property
    def data(self) -> memoryview:
        """All rows. Keep no reference: it is overwritten when the rows change."""
        return memoryview(self._data)[: self._used]

    def names(self) -> Iterator[bytes]:
        """Return the names of all rows."""
        names = _names(self)
        return (names[at : at + NAME_BYTES] for at in range(0, len(names), NAME_BYTES))

    def key(self, name: bytes) -> memoryview:
        """Return the key of a name that the rows contain. Keep no reference: it is overwritten when the rows change."""
        at = self._find(name)
        return memoryview(self._data)[at + NAME_BYTES : at + ROW_BYTES]

    def append(self, rows: Buffer) -> None:
        """Add rows at the end."""
        end = self._used + len(rows)
        if end > len(self._data):
            grown = bytearray(max(end, 2 * self._used))
            memoryview(grown)[: self._used] = self.data  # a bytearray would make a copy of it first
            wipe(self._data)  # a bytearray that grows by itself leaves its old bytes behind
            self._data = grown
        memoryview(self._data)[self._used : end] = rows
        self._used = end

    def without(self, names: Collection[bytes]) -> "Rows":
        """Return a copy of the rows without those of these names."""
        starts = sorted(self._find(name) for name in names)
        left = bytearray(self._used - len(starts) * ROW_BYTES)
        source, target = 0, 0
        for start in (*starts, self._used):
            memoryview(left)[target : target + start - source] = memoryview(self._data)[source:start]
            target, source = target + start - source, start + ROW_BYTES
        return Rows(left)

    def wipe(self) -> None:
        """Overwrite all rows."""
        wipe(self._data)
        self._used = 0

    def _find(self, name: bytes) -> int:
        at = self._data.find(name, 0, self._used) if len(name) == NAME_BYTES else -1
        while at >= 0 and at % ROW_BYTES:  # a key, or the end of one name and the start of another
            at = self._data.find(name, at + 1, self._used)
        return at


@dataclass
class Partition:
    """A page of data keys: where it is stored, its own key, and its rows.

    Attributes
    ----------
    end : int
        Where the next record goes in the page.
    last : int
        Where the last record starts in the page.
    durable : bool
        Whether this process has synced the last record itself.
    """

    page: int
    generation: int
    key: bytearray
    rows: Rows
    records: int
    last: int
    end: int
    durable: bool = False

    def wipe(self) -> None:
        """Overwrite its keys in memory."""
        wipe(self.key)
        self.rows.wipe()


@dataclass
class Partitions:
    """All pages of data keys, by a number of this process's own, and the index of their names."""

    pages: dict[int, Partition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._recent: dict[bytes, int] = {}
        self._hashes: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._places: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
        self._next = max(self.pages, default=-1) + 1
        self._rebuild()

    def __len__(self) -> int:
        return sum(len(partition.rows) for partition in self.pages.values())

    def names(self) -> frozenset[bytes]:
        """Return the names of all keys."""
        return frozenset(name for partition in self.pages.values() for name in partition.rows.names())

    def place(self, name: bytes) -> int | None:
        """Return the number of the page that holds a name."""
        for place in self._candidates(name):
            partition = self.pages.get(place)
            if partition is not None and name in partition.rows:
                return place
        return None

    def add(self, partition: Partition) -> int:
        """Add a page, and return its number."""
        place, self._next = self._next, self._next + 1
        self.pages[place] = partition
        self._remember(partition.rows.names(), place)
        return place

    def extend(self, place: int, rows: bytearray) -> None:
        """Add rows to a page."""
        self.pages[place].rows.append(rows)
        names = (bytes(rows[at : at + NAME_BYTES]) for at in range(0, len(rows), ROW_BYTES))
        self._remember(names, place)

    def replace(self, place: int, partition: Partition | None) -> None:
        """Replace a page and overwrite its keys in memory; None only removes it."""
        self.pages[place].wipe()
        if partition is None:
            del self.pages[place]
        else:
            self.pages[place] = partition

    def choose(self, fits: Callable[[Partition], bool]) -> int | None:
        """Return the number of the page with the most room among those that `fits` accepts; None if there is none."""
        fitting = [place for place, partition in self.pages.items() if fits(partition)]
        return min(fitting, key=lambda place: self.pages[place].end, default=None)

    def wipe(self) -> None:
        """Overwrite all keys in memory."""
        for partition in self.pages.values():
            partition.wipe()
        self.pages.clear()

    def _remember(self, names: Iterable[bytes], place: int) -> None:
        self._recent.update((name, place) for name in names)
        if len(self._recent) > max(_MOST_RECENT, len(self._hashes) // 8):
            self._rebuild()

    def _candidates(self, name: bytes) -> Iterator[int]:
        if (recent := self._recent.get(name)) is not None:
            yield recent
        if len(name) == NAME_BYTES and len(self._hashes):
            target = _hashes(name)[0]
            at = int(np.searchsorted(self._hashes, target))
            while at < len(self._hashes) and self._hashes[at] == target:
                yield int(self._places[at])
                at += 1

    def _rebuild(self) -> None:
        """Make the index of all names anew."""
        filled = {place: partition.rows for place, partition in self.pages.items() if len(partition.rows)}
        if not filled:
            return
        hashes = np.concatenate([_hashes(_names(rows)) for rows in filled.values()])
        counts = [len(rows) for rows in filled.values()]
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._places = np.repeat(np.fromiter(filled, np.uint32, len(filled)), counts)[order]
        self._recent.clear()
        same = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        if len(same):
            self._check_distinct({int(place) for at in same for place in self._places[at : at + 2]})

    def _check_distinct(self, places: set[int]) -> None:
        names = [name for place in places for name in self.pages[place].rows.names()]
        if len(set(names)) < len(names):
            raise VaultError("two keys of one name: the key file is damaged")


def _names(rows: Rows) -> bytes:
    """Return the names of the rows, one after the other, without the keys."""
    array = np.frombuffer(rows.data, np.uint8).reshape(-1, ROW_BYTES)
    return array[:, :NAME_BYTES].tobytes()


def _hashes(names: bytes) -> npt.NDArray[np.uint64]:
    halves = np.frombuffer(names, np.uint64).reshape(-1, 2)
    mixed: npt.NDArray[np.uint64] = halves[:, 0] ^ (halves[:, 1] * np.uint64(_MIX))
    return mixed
