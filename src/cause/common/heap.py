"""Returning freed memory to the system, so that an idle device holds no more than it needs."""

import ctypes
import sys
from contextlib import suppress


def return_freed_memory() -> None:
    """Let glibc's allocator return freed memory to the system; do nothing with other C libraries.

    Arrays of some megabytes that were freed stay with the process otherwise, since glibc expects to need them again.

    >>> return_freed_memory()
    """
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):  # another libc has no such function
        ctypes.CDLL(None).malloc_trim(0)
