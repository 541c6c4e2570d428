"""Few at a time of each name: whoever asks for much waits for itself."""

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """So many at once of a name, on one event loop; what nobody holds or waits for is gone.

    >>> turns = Turns(1)
    >>> turns.of("a") is turns.of("b")
    False
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._of)

    def of(self, name: str) -> asyncio.Semaphore:
        """Hold it while it is this name's turn."""
        return self._of.setdefault(name, asyncio.Semaphore(self._most))
