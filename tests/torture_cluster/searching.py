"""Looks for byte strings in processes, in shared memory and in folders, as an attacker with root's rights would.

Only pages that are there are read: the stacks of a Ray process alone are hundreds of megabytes that nobody ever wrote.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from tests.process_memory import Needles

PAGE = os.sysconf("SC_PAGE_SIZE")
PIECE = 16 << 20
OVERLAP = 16 << 10
_PRESENT = np.uint64(1 << 63 | 1 << 62)  # in memory, or swapped out


class Search:
    """A search for some byte strings.

    Parameters
    ----------
    groups
        The byte strings, those of one length in a group.
    """

    def __init__(self, groups: Iterable[Needles]) -> None:
        self._groups = list(groups)
        self._shared: dict[tuple[int, int], list[str]] = {}  # shared memory that was searched, and what it holds

    def in_process(self, pid: int) -> list[str]:
        """Return what the memory of a process holds: each byte string's name and where it is."""
        found: list[str] = []
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),  # it has ended
            Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory,
        ):
            for start, end, shared, name in _mappings(pid):
                if shared:
                    found += self._in_shared(pid, start, end, name)
                    continue
                for piece_start, piece in _resident(pid, memory.fileno(), start, end):
                    found += [
                        f"{each} at {piece_start + at:#x} {name} after {piece[max(0, at - 48) : at].hex()}"
                        for each, at in self._hits(piece)
                    ]
        return found

    def in_folder(self, folder: Path) -> list[str]:
        """Return what the files of a folder hold."""
        found: list[str] = []
        for path in sorted(folder.rglob("*")):
            with contextlib.suppress(OSError):  # it was removed meanwhile
                if path.is_file() and not path.is_symlink():
                    with path.open("rb", buffering=0) as file:
                        found += self._in_file(file.fileno(), str(path))
        return found

    def _in_shared(self, pid: int, start: int, end: int, name: str) -> list[str]:
        """Search a whole file in memory, also the pages that this process never touched."""
        with (
            contextlib.suppress(OSError),
            Path(f"/proc/{pid}/map_files/{start:x}-{end:x}").open("rb", buffering=0) as file,
        ):
            status = os.fstat(file.fileno())
            identity = status.st_dev, status.st_ino
            if identity not in self._shared:
                self._shared[identity] = self._in_file(file.fileno(), name)
            return self._shared[identity]
        return []

    def _in_file(self, descriptor: int, name: str) -> list[str]:
        found, at, size = [], 0, os.fstat(descriptor).st_size
        while at < size:
            try:
                at = os.lseek(descriptor, at, os.SEEK_DATA)
                end = os.lseek(descriptor, at, os.SEEK_HOLE)
            except OSError:
                break  # the rest was never written
            while at < end:
                piece = os.pread(descriptor, min(PIECE, end - at), at)
                if not piece:
                    return found
                found += [f"{each} in {name}" for each, _ in self._hits(piece)]
                at = end if at + len(piece) >= end else at + len(piece) - OVERLAP
        return found

    def _hits(self, data: bytes) -> Iterator[tuple[str, int]]:
        padded = memoryview(data + b"\0" * 8)
        for needles in self._groups:
            yield from needles.found_in(padded)


def _mappings(pid: int) -> Iterator[tuple[int, int, bool, str]]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights.startswith("rw"):
            start, end = (int(each, 16) for each in span.split("-"))
            yield start, end, rights[3] == "s", name[0] if name else "anonymous"


def _resident(pid: int, memory: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Return the pages of a mapping that are there, joined with their neighbours."""
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        entries = os.pread(pagemap.fileno(), (end - start) // PAGE * 8, start // PAGE * 8)
    there = (np.frombuffer(entries, dtype=np.uint64) & _PRESENT) != 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]]).astype(np.int8)))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        at, stop = start + first * PAGE, start + last * PAGE
        while at < stop:
            try:
                piece = os.pread(memory, min(PIECE, stop - at), at)
            except OSError:
                break  # it was unmapped meanwhile
            if not piece:
                break
            yield at, piece
            at = stop if at + len(piece) >= stop else at + len(piece) - OVERLAP
