"""Retries reads of a home that another process is writing."""

import time
from collections.abc import Callable
from typing import TypeVar

from cause.errors import CauseError, HomeError

TRIES = 4
"""How often a reader tries in all."""
PAUSE_S = 0.02
"""How long it waits after the first failure; twice as long after each further one."""
T = TypeVar("T")


def retried(
    read: Callable[[], T],
    *,
    tries: int = TRIES,
    pause_s: float = PAUSE_S,
    errors: tuple[type[CauseError], ...] = (HomeError,),
    fits: Callable[[T], bool] = lambda _: True,
) -> T:
    """Call `read`, and call it again if it fails: it may have seen keys and tables of two different moments.

    Parameters
    ----------
    read
        Reads something, or opens a home for reading. It must leave nothing open when it fails.
    tries
        How often to call it in all.
    pause_s
        How long to wait after the first failure; twice as long after each further one.
    errors
        The errors that may pass; others are raised at once.
    fits
        Whether a result is of one moment. The last one is returned all the same.

    Raises
    ------
    HomeError
        If it fails every time: the last error.

    Examples
    --------
    >>> answers = iter([HomeError("between two moments"), "whole"])
    >>> def read() -> str:
    ...     answer = next(answers)
    ...     if isinstance(answer, HomeError):
    ...         raise answer
    ...     return answer
    >>> retried(read, pause_s=0.0)
    'whole'
    """
    for attempt in range(tries - 1):
        try:
            result = read()
            if fits(result):
                return result
        except errors:
            pass
        time.sleep(pause_s * 2**attempt)
    return read()
