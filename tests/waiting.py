"""Wait for a condition, with a bound. No test sleeps for a guessed time until something has happened."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
FIRST_INTERVAL_S, LONGEST_INTERVAL_S = 0.002, 0.03
"""Pauses between two checks: short at first, then longer, since checking slows down what is waited for."""


def wait_until(
    condition: Callable[[], T], seconds: float = 60.0, message: str | Callable[[], str] = "it takes too long"
) -> T:
    """Return the first value of `condition()` that is true; fail with the message after so many seconds."""
    end, interval = time.monotonic() + seconds, FIRST_INTERVAL_S
    while not (value := condition()):
        assert time.monotonic() < end, message if isinstance(message, str) else message()
        time.sleep(interval)
        interval = min(1.5 * interval, LONGEST_INTERVAL_S)
    return value


def pass_time(seconds: float) -> None:
    """Let time pass where time itself is under test: a client that sends slowly, work that takes long."""
    time.sleep(seconds)
