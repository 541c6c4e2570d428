"""Keys and files that are to be destroyed: now, or once a doubtful transaction is settled.

When a commit fails, SQLite may have written it all the same, and a later opening may find it. So the names of a failed
transaction are *uncertain*: they are destroyed only after another transaction has been committed, which overwrites the
failed one.
"""

from collections.abc import Callable, Iterable, Iterator, Set


class Garbage(Set[bytes]):
    """The names of keys (and of the files sealed under them) that wait for the next erasure.

    >>> garbage = Garbage()
    >>> garbage.update([b"evicted"])
    >>> garbage.add_uncertain([b"new"])
    >>> sorted(garbage.to_destroy(set)), sorted(garbage)
    ([b'evicted'], [b'evicted', b'new'])
    >>> garbage.committed()
    >>> sorted(garbage.to_destroy(set))
    [b'evicted', b'new']
    """

    def __init__(self) -> None:
        self._certain: set[bytes] = set()
        self._settled: set[bytes] = set()  # uncertain ones, after another transaction was committed
        self._uncertain: set[bytes] = set()

    @classmethod
    def _from_iterable(cls, names: Iterable[bytes]) -> frozenset[bytes]:  # type: ignore[override]
        return frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name in self._certain or name in self._settled or name in self._uncertain

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._certain | self._settled | self._uncertain)

    def __len__(self) -> int:
        return len(self._certain | self._settled | self._uncertain)

    def update(self, *names: Iterable[bytes]) -> None:
        """Add names that no table has, by a transaction that was committed or never begun."""
        self._certain.update(*names)

    def add_uncertain(self, *names: Iterable[bytes]) -> None:
        """Add names that a failed transaction would have added to the tables, or deleted from them."""
        self._uncertain.update(*names)

    def difference_update(self, names: Iterable[bytes]) -> None:
        """Remove names from the garbage: the tables have them now."""
        kept = set(names)
        for part in (self._certain, self._settled, self._uncertain):
            part -= kept

    def committed(self) -> None:
        """Note that a transaction was committed: those that failed before it can no longer appear."""
        self._settled |= self._uncertain
        self._uncertain.clear()

    def to_destroy(self, named: Callable[[], Set[bytes] | set[bytes]]) -> frozenset[bytes]:
        """Return the names that can be destroyed now.

        Parameters
        ----------
        named
            Reads all names that the tables have. It is called only after an error: a transaction that was interrupted
            right after its commit reports a failure, although the tables have its names.
        """
        if self._settled:
            self._certain |= self._settled - set(named())
            self._settled.clear()
        return frozenset(self._certain)

    def destroyed(self, names: Iterable[bytes]) -> None:
        """Note that these keys and files are destroyed."""
        self._certain.difference_update(names)
