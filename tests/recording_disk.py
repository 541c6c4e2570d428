"""A disk that records what is done to it, every state a power loss could leave, and a disk that fails.

The model. A write is durable once its file is synced, a name once its folder is synced. At a power loss each write that
is not durable is lost, there, or torn (its first or its last part is there), and each change of a name that is not
durable has happened or has not, whatever the order. `crash_states` goes through every prefix of what was done and,
in each, through all combinations, or a fixed random choice of them where they are too many.
"""

import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cause.disk import Disk, OpenFile

MOST_STATES = 64  # a prefix: all combinations up to here, a random choice beyond


@dataclass(frozen=True)
class Write:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncate:
    inode: int
    size: int


@dataclass(frozen=True)
class Sync:
    inodes: tuple[int, ...]


@dataclass(frozen=True)
class Names:
    """A change of names: some go, some come. A folder is an entry without an inode."""

    folder: Path
    gone: tuple[Path, ...] = ()
    came: tuple[tuple[Path, int | None], ...] = ()


@dataclass(frozen=True)
class SyncFolder:
    folder: Path


Operation = Write | Truncate | Sync | Names | SyncFolder


@dataclass
class State:
    """Files and folders, by path relative to the root."""

    names: dict[Path, int | None] = field(default_factory=dict)
    inodes: dict[int, bytes] = field(default_factory=dict)

    def copy(self) -> "State":
        return State(dict(self.names), dict(self.inodes))

    def apply(self, operation: Operation) -> None:
        if isinstance(operation, Write):
            old = self.inodes.get(operation.inode, b"")
            end = operation.offset + len(operation.data)
            self.inodes[operation.inode] = (
                old[: operation.offset].ljust(operation.offset, b"\0") + operation.data + old[end:]
            )
        elif isinstance(operation, Truncate):
            self.inodes[operation.inode] = self.inodes.get(operation.inode, b"")[: operation.size]
        elif isinstance(operation, Names):
            for path in operation.gone:
                self.names.pop(path, None)
            self.names.update(operation.came)

    def files(self) -> dict[Path, bytes]:
        """What can be reached: a name whose folder's name was lost cannot."""
        found = {}
        for path, inode in self.names.items():
            if inode is not None and all(parent in self.names for parent in path.parents if parent != Path()):
                found[path] = self.inodes.get(inode, b"")
        return found

    def write_to(self, folder: Path) -> None:
        """Make the state real."""
        folder.mkdir()
        for path, inode in sorted(self.names.items()):
            if inode is None and all(parent in self.names for parent in path.parents if parent != Path()):
                (folder / path).mkdir()
        for path, data in self.files().items():
            (folder / path).write_bytes(data)


class RecordingFile(OpenFile):
    def __init__(self, file: OpenFile, disk: "RecordingDisk", inode: int) -> None:
        super().__init__(file.path, file.descriptor)
        self.disk = disk
        self.inode = inode

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        self.disk.step(Write(self.inode, offset, bytes(data)))
        super().write_at(offset, data)


class RecordingDisk(Disk):
    """A disk below a root, on which everything is done for real, except that nothing waits for the device.

    What lies below the root at the start is durable. With `fail_at` the n-th change raises `OSError(error)`: once, or
    with `for_good` also all that follow; a write that fails leaves its first half behind.
    """

    def __init__(self, root: Path, *, fail_at: int | None = None, error: int = 0, for_good: bool = False) -> None:
        self.root = root
        self.fail_at, self.error, self.for_good = fail_at, error, for_good
        self.operations: list[Operation] = []
        self.initial = State()
        self.now = State()
        self._next_inode = 0
        for path in sorted(root.rglob("*")):
            inode = None if path.is_dir() else self.new_inode()
            self.initial.names[path.relative_to(root)] = inode
            if inode is not None:
                self.initial.inodes[inode] = path.read_bytes()
        self.now = self.initial.copy()

    def step(self, operation: Operation) -> None:
        number = len(self.operations)
        if self.fail_at is not None and (number == self.fail_at or (self.for_good and number > self.fail_at)):
            if isinstance(operation, Write):
                half = Write(operation.inode, operation.offset, operation.data[: len(operation.data) // 2])
                path = next(path for path, inode in self.now.names.items() if inode == operation.inode)
                with (self.root / path).open("r+b") as file:
                    file.seek(half.offset)
                    file.write(half.data)
            self.operations.append(Sync(()))
            raise OSError(self.error, os.strerror(self.error))
        self.operations.append(operation)
        self.now.apply(operation)

    def make_folder(self, folder: Path) -> None:
        path = folder.relative_to(self.root)
        self.step(Names(path.parent, came=((path, None),)))
        super().make_folder(folder)

    def create(self, path: Path) -> OpenFile:
        if path.exists():
            raise FileExistsError(path)
        relative, inode = path.relative_to(self.root), self.new_inode()
        self.step(Names(relative.parent, came=((relative, inode),)))
        return RecordingFile(super().create(path), self, inode)

    def open(self, path: Path) -> OpenFile:
        inode = self.now.names[path.relative_to(self.root)]
        assert inode is not None
        return RecordingFile(super().open(path), self, inode)

    def sync(self, *files: OpenFile) -> None:
        self.step(Sync(tuple(file.inode for file in files if isinstance(file, RecordingFile))))

    def rename(self, old: Path, new: Path) -> None:
        before, after = old.relative_to(self.root), new.relative_to(self.root)
        self.step(Names(after.parent, gone=(before,), came=((after, self.now.names[before]),)))
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        if not path.exists():
            raise FileNotFoundError(path)
        relative = path.relative_to(self.root)
        self.step(Names(relative.parent, gone=(relative,)))
        super().unlink(path)

    def sync_folder(self, folder: Path) -> None:
        self.step(SyncFolder(folder.relative_to(self.root)))

    def new_inode(self) -> int:
        self._next_inode += 1
        return self._next_inode


def crash_states(disk: RecordingDisk, first: int = 0, most: int = MOST_STATES) -> Iterator[tuple[int, State]]:
    """Every prefix of what was done, from `first` operations on, and what a power loss then could leave."""
    durable, waiting = disk.initial.copy(), []
    for done in range(len(disk.operations) + 1):
        if done:
            durable, waiting = _settle(durable, [*waiting, disk.operations[done - 1]])
        if done >= first:
            seen = set()
            for choice in _choices([list(_outcomes(operation)) for operation in waiting], done, most):
                state = durable.copy()
                for outcome in choice:
                    if outcome is not None:
                        state.apply(outcome)
                key = tuple(sorted((str(path), data) for path, data in state.files().items()))
                key += tuple(sorted(str(path) for path, inode in state.names.items() if inode is None))
                if key not in seen:
                    seen.add(key)
                    yield done, state


def _settle(durable: State, waiting: list[Operation]) -> tuple[State, list[Operation]]:
    """Move what the last operation made durable from what waits."""
    last = waiting[-1]
    if isinstance(last, Sync):
        now = [op for op in waiting if isinstance(op, Write | Truncate) and op.inode in last.inodes]
    elif isinstance(last, SyncFolder):
        now = [op for op in waiting if isinstance(op, Names) and op.folder == last.folder]
    else:
        return durable, waiting
    for operation in now:
        durable.apply(operation)
    settled = {id(op) for op in now}
    return durable, [op for op in waiting[:-1] if id(op) not in settled]


def _outcomes(operation: Operation) -> Iterator[Operation | None]:
    yield None
    yield operation
    if isinstance(operation, Write) and len(operation.data) > 1:
        middle = (len(operation.data.rstrip(b"\0")) or len(operation.data)) // 2 or 1  # not in a page's padding
        yield Write(operation.inode, operation.offset, operation.data[:middle])
        yield Write(operation.inode, operation.offset + middle, operation.data[middle:])


def _choices(options: list[list[Operation | None]], seed: int, most: int) -> Iterator[tuple[Operation | None, ...]]:
    combinations = 1
    for option in options:
        combinations *= len(option)
    if combinations <= most:
        yield from itertools.product(*options)
        return
    yield tuple(option[0] for option in options)
    yield tuple(option[1] for option in options)
    draw = random.Random(seed)
    for _ in range(most - 2):
        yield tuple(draw.choice(option) for option in options)
