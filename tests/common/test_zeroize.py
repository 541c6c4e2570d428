"""Freed memory is overwritten, and nothing else is."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from cause.common import zeroize
from cause.common.hashing import pack
from cause.common.zeroize import flush_allocator_caches, wipe_arrays
from cause.engine.arrays import ArrayUpload, _digest, raw
from tests.process_memory import Needles
from tests.waiting import wait_until

glibc = pytest.mark.skipif(zeroize._glibc() is None, reason="for glibc only")
FREED = """
import ctypes, sys
from cause.common import zeroize
on = zeroize.overwrite_freed_memory()
library = zeroize._glibc()
blocks = [library.malloc(5000) for _ in range(3)]  # the one in the middle does not join what is free around it
ctypes.memset(blocks[1], 7, 5000)
library.free(blocks[1])
print(on, ctypes.string_at(blocks[1] + 64, 4000).count(7))
"""


def freed(**environment: str) -> str:
    given = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", FREED], env=given, capture_output=True, text=True, check=True).stdout


@glibc
def test_what_is_freed_is_overwritten_unless_the_environment_says_no():
    overwritten, left = freed().split()
    assert overwritten == "True"
    assert int(left) < 100  # the allocator may have used some of it again, for anything
    overwritten, left = freed(**{zeroize.VARIABLE: "0"}).split()
    assert overwritten == "False"
    assert int(left) > 3_000  # the allocator may have used some of it again


def test_importing_changes_nothing_for_the_process():
    script = "import cause, cause.common.zeroize as z; print(z.overwrite_freed_memory.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


def test_small_blocks_that_numpy_keeps_are_overwritten():
    array = np.full(300, 7, dtype=np.uint8)
    place = array.ctypes.data
    del array  # numpy keeps the block
    flush_allocator_caches()
    assert ctypes.string_at(place + 16, 256).count(7) == 0


def test_arrays_that_are_read_only_are_left_as_they_are():
    given = np.frombuffer(b"somebody's own", dtype=np.uint8)
    wipe_arrays(given)
    assert given.tobytes() == b"somebody's own"


@pytest.mark.parametrize("dtype", ["float32", "float64", ">f4", "float16", "uint8", "bool", "int64"])
def test_digests_without_a_copy_are_those_of_the_bytes(dtype):
    import hashlib

    x = np.arange(24).reshape(4, 6).astype(dtype)
    for row in (*x, x.T[1], x[0, 0], x.reshape(4, 2, 3)[1]):
        described = pack("alice", 3, row.dtype.str, str(row.shape), row.tobytes(), 2)
        assert _digest("alice", 3, row, 2) == hashlib.sha256(described).digest()[:16]
        assert raw(row).tobytes() == row.tobytes()


def test_the_callers_arrays_are_not_touched():
    x = np.ones((3, 2))
    ArrayUpload("alice", 1, x, [0, 1, 0])
    assert x.all()


@pytest.mark.parametrize("length", [32, 100, 256])
@pytest.mark.parametrize("offset", [0, 1, 7, 8, 133])
def test_the_search_finds_a_needle_wherever_it_lies(length, offset):
    needle = os.urandom(length)
    memory = memoryview(bytes(4096 + offset) + needle + bytes(512))
    assert list(Needles({"it": needle}).found_in(memory)) == [("it", 4096 + offset)]
    assert list(Needles({"it": needle}).found_in(memoryview(bytes(8192)))) == []


def test_each_erasure_is_followed_by_a_sweep_and_those_at_once_share_one(monkeypatch):
    swept = list[int]()
    monkeypatch.setenv(zeroize.VARIABLE, "1")
    monkeypatch.setattr(zeroize, "sweep", lambda: swept.append(1))
    sweeper = zeroize.Sweeper(after_s=0.0)
    for count in (1, 2, 3):
        sweeper.soon()
        wait_until(lambda: len(swept) == count)  # noqa: B023
    later = zeroize.Sweeper(after_s=60.0)
    later.soon()
    later.soon()
    assert len(swept) == 3
    later.close()
    assert len(swept) == 4, "what is due is done at the end at once"
    later.close()
    assert len(swept) == 4
