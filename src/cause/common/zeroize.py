"""Overwrite samples in memory once they are no longer used.

Neither CPython nor the C library clears what it frees: a sample stays whole in the memory of the process until
something else happens to be put there, and a debugger, a core dump or swap contains it. Three
things together keep that short:

1. `overwrite_freed_memory` lets the C library fill each block with a constant when it is freed (glibc's `M_PERTURB`).
   That reaches the copies of numpy, torch, OpenSSL and the HTTP server, too.
2. What it does not reach: blocks that are kept for reuse without being freed. glibc keeps some of up to 1,032 bytes for
   each thread, numpy some of up to 1,023 bytes, CPython those of up to 512 bytes. So rows are not turned into `bytes`
   where a view will do, small copies are wiped after use (`wipe_arrays`), and `flush_allocator_caches` takes what numpy
   and glibc keep and overwrites it.
3. Objects that wait in reference cycles for the garbage collector: `Sweeper` collects soon after something was
   forgotten.

Worker processes that trained on forgotten samples are ended (`executors.processes`): their memory goes back to the
kernel, which clears it.

All of this is for the process, not for an object: it is switched on when a home is opened for writing and in workers,
never by importing. `CAUSE_OVERWRITE_FREED=0` in the environment switches it off. On other C libraries than glibc the
first two do nothing.
"""

import ctypes
import gc
import os
import threading
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "CAUSE_OVERWRITE_FREED"
"""Set to 0, this environment variable keeps freed memory as it is; `benchmarks.freed_memory` says what that saves."""
M_PERTURB = -6
FILL = 0xFF
"""What freed memory is filled with. New memory gets the complement, so it is zeros, as fresh memory is."""
_THREAD_CACHE_BYTES = 1_032
_THREAD_CACHE_BLOCKS = 7
"""glibc keeps so many blocks of each size, up to that size, for each thread."""
_NUMPY_CACHE_BYTES = 1_024
_NUMPY_CACHE_BLOCKS = 7
"""numpy keeps so many blocks of each size below that."""
SWEEP_AFTER_S = 0.5
"""How long a sweep waits, so that erasures which follow each other share one."""


def enabled() -> bool:
    """Return whether the environment allows freed memory to be overwritten."""
    return os.environ.get(VARIABLE, "1") != "0"


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  # other C libraries do not have it
    except (OSError, AttributeError, TypeError):
        return None
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    return library


@cache
def overwrite_freed_memory() -> bool:
    """Let the C library overwrite what this process frees from now on.

    Returns
    -------
    bool
        Whether it does: not with other C libraries than glibc, nor if the environment says no.
    """
    library = _glibc() if enabled() else None
    return library is not None and library.mallopt(M_PERTURB, FILL) == 1


def wipe_arrays(*arrays: NDArray[Any]) -> None:
    """Fill arrays with zeros. They must be the caller's own, without another user of them or of a view.

    Arrays that cannot be written to are left as they are.

    >>> x = np.ones(3)
    >>> wipe_arrays(x)
    >>> x
    array([0., 0., 0.])
    """
    for array in arrays:
        if array.flags.writeable:
            array.fill(0)


def flush_allocator_caches() -> None:
    """Overwrite the small blocks that numpy, and glibc for this thread, keep for reuse."""
    kept = [
        np.zeros(size, dtype=np.uint8) for size in range(4, _NUMPY_CACHE_BYTES, 4) for _ in range(_NUMPY_CACHE_BLOCKS)
    ]
    del kept
    library = _glibc()
    if library is not None:
        blocks = []
        for size in range(24, _THREAD_CACHE_BYTES + 1, 16):
            for _ in range(_THREAD_CACHE_BLOCKS):
                blocks.append(block := library.malloc(size))
                ctypes.memset(block, 0, size)
        for block in blocks:
            library.free(block)


class Sweeper:
    """Removes from memory, soon after an erasure, what nothing refers to any more.

    The garbage collector may run for a tenth of a second, so a thread of its own does it, once for all erasures within
    half a second.
    """

    def __init__(self, after_s: float = SWEEP_AFTER_S) -> None:
        self._after_s = after_s
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def soon(self) -> None:
        """Sweep a moment from now, if no sweep is due already."""
        if not enabled():
            return
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(self._after_s, self._run)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Cancel a sweep that is due. What it would have done is done at once if there was one."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            sweep()

    def _run(self) -> None:
        with self._lock:
            self._timer = None
        sweep()


def sweep() -> None:
    """Collect reference cycles, and overwrite what allocators keep for reuse."""
    gc.collect()
    flush_allocator_caches()
