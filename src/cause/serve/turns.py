"""One at a time of each name: whoever asks for much waits for itself."""

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """Locks by name, on one event loop; one that nobody holds or waits for is gone.

    >>> turns = Turns()
    >>> turns.of("a") is turns.of("b")
    False
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """Hold it while it is this name's turn."""
        return self._locks.setdefault(name, asyncio.Lock())
