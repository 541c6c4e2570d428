"""Memory that requests may hold together: each holds a share, and what finds no room is refused, not queued."""

import threading

FREE = 65_536
"""Bytes that a request may hold uncounted: how many requests there are at once is bounded, too, and what is small gets
through however full it is."""


class Room:
    """So many bytes for all; one alone may hold more, or it could never be served.

    >>> room = Room(1_000_000)
    >>> mine, yours, small = room.share(), room.share(), room.share()
    >>> mine.hold(900_000), yours.hold(200_000), small.hold(1_000), room.held
    (True, False, True, 900000)
    >>> mine.let_go()
    >>> yours.hold(2_000_000)
    True
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self.held = 0

    def share(self) -> "Share":
        """Nothing yet."""
        return Share(self)

    def change(self, before: int, after: int) -> bool:
        """Let a share grow or shrink; False when there is no room."""
        with self._lock:
            others = self.held - before
            if after > before and others and others + after > self._most:
                return False
            self.held = others + after
            return True


class Share:
    """What one request holds."""

    def __init__(self, room: Room) -> None:
        self._room, self._held = room, 0

    def hold(self, size: int) -> bool:
        """So many bytes in all from now on; False, and nothing changed, when there is no room."""
        counted = size if size > FREE else 0
        if not self._room.change(self._held, counted):
            return False
        self._held = counted
        return True

    def let_go(self) -> None:
        self.hold(0)
