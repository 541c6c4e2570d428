"""Decides how large the parts of a message are, and when the next part may leave.

A message that waits behind megabytes in the buffers of kernels and routers arrives late, and a renewal of a lease must
not. So only a few parts may be on their way, and the other end confirms each. Their size follows from how long that
takes: on a slow link they are small, on a fast one large enough to keep it busy.
"""

import time
from collections import deque
from collections.abc import Callable
from threading import Condition
from typing import NamedTuple

LEAST_PART, MOST_PART = 1 << 14, 1 << 20
"""The bytes of the smallest and of the largest part."""
PARTS_AHEAD = 4
"""So many parts may be on their way without a confirmation."""
QUEUE_S = 0.25
"""Parts become smaller when they wait longer than this for each other: a quarter of the shortest lease."""


class Finished(OSError):
    """Nothing more is sent through the channel: its last message was sent, or it was shut."""


class _Part(NamedTuple):
    """A part that is on its way."""

    size: int
    left_at: float
    queue_is_full: bool
    """Whether as many parts as are allowed were on their way with it."""


class Pace:
    """The parts that are on their way in one direction of a channel.

    Parameters
    ----------
    clock
        Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._condition = Condition()
        self._size = LEAST_PART
        self._on_their_way: deque[_Part] = deque()
        self._fastest = float("inf")  # the shortest time from a departure to its confirmation: mostly distance
        self._changed_at = clock()
        self._stopped = False

    def next(self, left: int) -> int:
        """Wait until the next part may leave, and return its size; `left` bytes are still to be sent.

        Raises
        ------
        Finished
            If `stop` was called.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._stopped or len(self._on_their_way) < PARTS_AHEAD)
            if self._stopped:
                raise Finished("the channel is shut")
            size = min(self._size, left)
            queue_is_full = len(self._on_their_way) + 1 == PARTS_AHEAD
            self._on_their_way.append(_Part(size, self._clock(), queue_is_full))
            return size

    def confirm(self) -> None:
        """Note that the other end has received the oldest part on its way; a `ValueError` if there is none."""
        with self._condition:
            if not self._on_their_way:
                raise ValueError("a confirmation of no part")
            part = self._on_their_way.popleft()
            taken = self._clock() - part.left_at
            self._fastest = min(self._fastest, taken)
            if part.left_at >= self._changed_at:  # the earlier ones say nothing about parts of the present size
                self._adapt(part, taken)
            self._condition.notify_all()

    def _adapt(self, part: "_Part", taken: float) -> None:
        """Change the size of parts, after one of them took so many seconds until its confirmation."""
        queued = taken - self._fastest
        has_room = part.queue_is_full or taken < QUEUE_S / 2 / PARTS_AHEAD  # else others will queue behind it
        if queued > QUEUE_S:
            self._size = max(self._size // 2, LEAST_PART)
        elif queued < QUEUE_S / 2 and has_room and part.size == self._size:  # a small rest of a message is quick
            self._size = min(self._size * 2, MOST_PART)
        else:
            return
        self._changed_at = self._clock()

    def stop(self) -> None:
        """Let nothing more leave; a thread that waits in `next` gets an error."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
