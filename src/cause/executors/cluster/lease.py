"""A worker's lease: the kernel kills the process unless the lease is renewed in time.

A worker on another machine may be cut off from the device, and then does not hear that samples were forgotten. So it
may live for some seconds only, and has to ask for more. A timer of the kernel sends SIGKILL when the time is over. That
needs no other process, and reaches a process that is stopped, hangs in a library, or blocks all signals; a machine that
is suspended counts the time of its sleep.
"""

import ctypes
import os
import signal
import sys
import time

from cause.errors import InputError

CLOCK = time.CLOCK_BOOTTIME if hasattr(time, "CLOCK_BOOTTIME") else time.CLOCK_MONOTONIC
"""The clock that goes on while the machine sleeps."""
LEAST_S, MOST_S = 1.0, 600.0
"""The shortest and the longest lease."""
MARGIN = 1.02
"""Two machines' clocks run alike to a part in fifty at least; usually to one in ten thousand."""
GRACE_S = 0.25
"""A killed process is gone once a processor has had time to free its memory, also on a busy machine."""
_ABSOLUTE = 1  # TIMER_ABSTIME
_BY_SIGNAL = 0  # SIGEV_SIGNAL


class _Event(ctypes.Structure):
    """The kernel's `struct sigevent`."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_byte * 48),
    )


class _Time(ctypes.Structure):
    """The kernel's `struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    """The kernel's `struct itimerspec`."""

    _fields_ = (("interval", _Time), ("value", _Time))


class Lease:
    """The time that this process may live. It begins at once.

    Parameters
    ----------
    seconds
        How long the process may live after a renewal was asked for.

    Raises
    ------
    InputError
        If this system has no such timers: only Linux has.
    """

    def __init__(self, seconds: float) -> None:
        if not sys.platform.startswith("linux"):
            raise InputError(f"workers of a cluster need Linux, whose timers end a worker in time, not {sys.platform}")
        self.seconds = seconds
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._timer = ctypes.c_void_p()
        event = _Event(signal=signal.SIGKILL, notify=_BY_SIGNAL)
        self._check(self._libc.timer_create(CLOCK, ctypes.byref(event), ctypes.byref(self._timer)))
        self.renew(now())

    def renew(self, asked_at: float) -> None:
        """Extend the lease to `seconds` after the renewal was asked for, however late the answer arrived."""
        end = asked_at + self.seconds
        whole = int(end)
        setting = _Setting(_Time(0, 0), _Time(whole, int((end - whole) * 1e9)))
        self._check(self._libc.timer_settime(self._timer, _ABSOLUTE, ctypes.byref(setting), None))

    @staticmethod
    def _check(result: int) -> None:
        if result:
            number = ctypes.get_errno()
            raise InputError(f"cannot set the timer of a lease: {os.strerror(number)}")


def longest_life(seconds: float) -> float:
    """Return after how many seconds of this machine's clock a worker without a renewal has ended.

    >>> longest_life(5.0)
    5.35
    """
    return seconds * MARGIN + GRACE_S


def now() -> float:
    """Return the time of the clock by which leases are measured."""
    return time.clock_gettime(CLOCK)
