"""Searches the memory of a running process and its children, as root could."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

MIX = np.uint64(0x9E3779B97F4A7C15)
BITS = 22
WORD = 8
PIECE = 64 << 20
"""Bytes read at a time."""


def readable() -> bool:
    """Whether the memory of a process of ours can be read: needs Linux, and a kernel and container that allow it."""
    try:
        with Path("/proc/self/mem").open("rb", buffering=0) as memory:
            return bool(os.pread(memory.fileno(), 1, next(_mappings(os.getpid()))[0]))
    except (OSError, StopIteration):
        return False


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    pids = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        pids += [each for child in children for each in family(int(child))]
    return pids


class Needles:
    """Byte strings to look for, all at least 32 bytes long and all of about one length.

    A needle anywhere in memory covers, at one of `stride` offsets, a word at a multiple of `stride`. So only
    every `stride`-th byte of the memory is compared, with the words of all needles at all offsets.
    """

    def __init__(self, named: dict[str, bytes]) -> None:
        self.named = named
        shortest = min(map(len, named.values()))
        self.stride = max(WORD, (shortest - WORD + 1) // WORD * WORD)
        assert self.stride + WORD - 1 <= shortest
        words: list[int] = []
        self._at: dict[int, list[tuple[str, int]]] = {}
        for name, needle in named.items():
            for offset in range(self.stride):
                word = int.from_bytes(needle[offset : offset + WORD], "little")
                words.append(word)
                self._at.setdefault(word, []).append((name, offset))
        self._filter = np.zeros(1 << BITS, dtype=bool)
        self._filter[_mixed(np.array(words, dtype=np.uint64))] = True

    def found_in(self, memory: memoryview) -> Iterator[tuple[str, int]]:
        """Each needle in the memory, with the place where it starts."""
        usable = len(memory) // WORD * WORD
        words = np.frombuffer(memory[:usable], dtype="<u8")[:: self.stride // WORD]
        for index in np.flatnonzero(self._filter[_mixed(words)]).tolist():
            for name, offset in self._at.get(int(words[index]), ()):
                start, needle = index * self.stride - offset, self.named[name]
                if start >= 0 and memory[start : start + len(needle)] == needle:
                    yield name, start


def search(pid: int, groups: Iterable[Needles], *, alone: bool = False) -> dict[str, list[str]]:
    """Return where each needle is in the writable memory of a process and, unless `alone`, of its descendants."""
    hits: dict[str, list[str]] = {}
    groups = list(groups)
    for each in [pid] if alone else family(pid):
        for start, name, memory in _contents(each):
            for needles in groups:
                for needle, at in needles.found_in(memory):
                    before = bytes(memory[max(0, at - 48) : at]).hex()
                    where = f"{'worker' if each != pid else 'process'} {name} {start + at:#x} after {before}"
                    hits.setdefault(needle, []).append(where)
    return hits


def _mixed(words: "np.ndarray") -> "np.ndarray":
    return ((words * MIX) >> np.uint64(64 - BITS)).astype(np.int64)


def _mappings(pid: int) -> Iterator[tuple[int, int, str]]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights.startswith("rw"):
            start, end = (int(each, 16) for each in span.split("-"))
            yield start, end, name[0] if name else "anonymous"


def _contents(pid: int) -> Iterator[tuple[int, str, memoryview]]:
    """Readable and writable mappings in pieces that overlap, so that nothing hides between two of them."""
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for start, end, name in _mappings(pid):
                at = start
                while at < end:
                    try:
                        data = os.pread(memory.fileno(), min(PIECE, end - at), at)
                    except OSError:
                        break  # it was unmapped meanwhile
                    if not data:
                        break
                    yield at, name, memoryview(data)
                    if at + len(data) >= end:
                        break
                    at += max(len(data) - 4096 * 4, 4096)
    except (FileNotFoundError, ProcessLookupError):
        return  # it ended meanwhile
