"""Memory that requests may hold together: each holds a share, and what finds no room is refused, not queued."""

import threading
from collections import Counter

FREE = 65_536
"""Bytes that a request may hold uncounted: how many requests there are at once is bounded, too, and what is small gets
through however full it is."""


class Room:
    """So many bytes for all, three quarters of them for one name; one alone may hold more, or it could never be served.

    >>> room = Room(1_000_000)
    >>> mine, yours, small = room.share("me"), room.share("you"), room.share("you")
    >>> mine.hold(900_000), yours.hold(200_000), small.hold(1_000), room.held
    (True, False, True, 900000)
    >>> mine.let_go()
    >>> yours.hold(2_000_000)
    True
    >>> yours.hold(500_000), room.share("you").hold(300_000), room.share("me").hold(300_000)
    (True, False, True)
    """

    def __init__(self, most: int) -> None:
        self._most, self._each, self._lock = most, most * 3 // 4, threading.Lock()
        self._of: Counter[str] = Counter()
        self.held = 0

    def share(self, name: str) -> "Share":
        """Nothing yet."""
        return Share(self, name)

    def change(self, name: str, before: int, after: int) -> bool:
        """Let a share grow or shrink; False when there is no room."""
        with self._lock:
            others, own = self.held - before, self._of[name] - before
            if after > before and ((others and others + after > self._most) or (own and own + after > self._each)):
                return False
            self.held, self._of[name] = others + after, own + after
            if not self._of[name]:
                del self._of[name]
            return True


class Share:
    """What one request holds."""

    def __init__(self, room: Room, name: str) -> None:
        self._room, self._name, self._held = room, name, 0

    def hold(self, size: int) -> bool:
        """So many bytes in all from now on; False, and nothing changed, when there is no room."""
        counted = size if size > FREE else 0
        if not self._room.change(self._name, self._held, counted):
            return False
        self._held = counted
        return True

    def let_go(self) -> None:
        self.hold(0)
