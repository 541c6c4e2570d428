"""A disk that records what is done to it, every state a power loss could leave, and a disk that fails.

The model. A write is durable once its file is synced, a name once its folder is synced. At a power loss each write that
is not durable is lost, there, or torn (its first or its last part is there), and each change of a name that is not
durable has happened or has not, whatever the order. `crash_states` goes through every prefix of what was done and,
in each, through all combinations, or a fixed random choice of them where they are too many; `cut_states` draws one
state for each of some prefixes.

A killed process loses nothing that the kernel holds: `RecordingDisk.resumed` is the disk of the process that comes
after it, with everything that was not durable still not durable. A sync that fails drops what it should have written:
the page cache shows it on, a later sync says yes, and at a power loss it is lost unless it was written again (Linux,
after EIO).
"""

import contextlib
import itertools
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cause.device.disk import Disk, OpenFile

MOST_STATES = 64  # a prefix: all combinations up to here, a random choice beyond
PAGE_BYTES = 4096


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
class FailedSync:
    """The writes that wait are taken for written, and are not."""

    inodes: tuple[int, ...]


@dataclass(frozen=True)
class Lost:
    """A write that a failed sync dropped from what waits."""

    write: Write


@dataclass(frozen=True)
class Names:
    """A change of names: some go, some come. A folder is an entry without an inode."""

    folder: Path
    removed: tuple[Path, ...] = ()
    added: tuple[tuple[Path, int | None], ...] = ()


@dataclass(frozen=True)
class SyncFolder:
    folder: Path


Operation = Write | Truncate | Sync | FailedSync | Lost | Names | SyncFolder


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
            for path in operation.removed:
                self.names.pop(path, None)
            self.names.update(operation.added)

    def files(self) -> dict[Path, bytes]:
        """What can be reached: a name whose folder's name was lost cannot."""
        reachable = {}
        for path, inode in self.names.items():
            if inode is not None and all(parent in self.names for parent in path.parents if parent != Path()):
                reachable[path] = self.inodes.get(inode, b"")
        return reachable

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

    def read_at(self, *where: int) -> bytes:
        """Where open files can be read."""
        self.disk.reading(self.path)
        data: bytes = super().read_at(*where)  # type: ignore[misc]
        return data

    def size(self) -> int:
        self.disk.reading(self.path)
        return super().size()


class RecordingDisk(Disk):
    """A disk below a root, on which everything is done for real, except that nothing waits for the device.

    What is below the root at the start is durable. With `fail_at` the n-th change raises `OSError(error)`: once, or
    with `for_good` also all that follow, with `same_file` those of the same kind on the same file only; a write that
    fails leaves its first half behind. `fail_read_at` is the same
    for reads, with `read_error` and `reads_for_good`.
    """

    paused = 0
    """While it is not 0, reads are not counted and do not fail: those of the test itself."""

    def __init__(self, root: Path, *, fail_at: int | None = None, error: int = 0, for_good: bool = False) -> None:
        self.root = root
        self.fail_at, self.error, self.for_good = fail_at, error, for_good
        self.same_file = False
        self._failed: tuple[type, object] | None = None
        self.fail_read_at: int | None = None
        self.read_error, self.reads_for_good, self.reads = 0, False, 0
        self.last_read = ""
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

    @classmethod
    def resumed(cls, root: Path, initial: State, operations: Sequence[Operation] = ()) -> "RecordingDisk":
        """What a process finds after another one was killed that had done this to a disk that began as `initial`.

        The root is made. What was not durable is not durable yet.
        """
        now = initial.copy()
        for operation in operations:
            now.apply(operation)
        now.write_to(root)
        disk = cls(root)
        disk.initial, disk.operations, disk.now = initial.copy(), list(operations), now
        inodes = [inode for inode in (*initial.names.values(), *now.names.values(), *now.inodes) if inode is not None]
        disk._next_inode = max(inodes, default=0)
        return disk

    def step(self, operation: Operation) -> None:
        if self._fails(operation):
            instead: Operation = Sync(())
            if isinstance(operation, Write):
                instead = Write(operation.inode, operation.offset, operation.data[: len(operation.data) // 2])
                path = next((path for path, inode in self.now.names.items() if inode == operation.inode), None)
                if path is not None:
                    with (self.root / path).open("r+b") as file:
                        file.seek(instead.offset)
                        file.write(instead.data)
            elif isinstance(operation, Sync):
                instead = FailedSync(operation.inodes)
            self.operations.append(instead)
            self.now.apply(instead)
            raise OSError(self.error, os.strerror(self.error))
        self.operations.append(operation)
        self.now.apply(operation)

    def _fails(self, operation: Operation) -> bool:
        number, at = len(self.operations), self.fail_at
        kind = type(operation), getattr(operation, "inode", getattr(operation, "inodes", None))
        if at is None or number < at or (number > at and not self.for_good):
            return False
        if number == at:
            self._failed = kind
        return not self.same_file or self._failed == kind

    def reading(self, what: object) -> None:
        """A read is about to happen: fail, if it is its turn."""
        if self.paused:
            return
        number, self.reads = self.reads, self.reads + 1
        at = self.fail_read_at
        if at is not None and (number == at or (self.reads_for_good and number > at)):
            self.last_read = self.last_read or str(what)
            raise OSError(self.read_error, os.strerror(self.read_error), str(what))

    def _relative(self, path: Path) -> Path:
        """A path below the root; a key file may be named as `home/../home.key`."""
        return Path(os.path.normpath(path)).relative_to(self.root)

    def read(self, path: Path) -> bytes:
        self.reading(path)
        return super().read(path)

    def names(self, folder: Path) -> list[str]:
        self.reading(folder)
        return super().names(folder)

    def make_folder(self, folder: Path) -> None:
        path = self._relative(folder)
        self._notice(path.parent)
        self.step(Names(path.parent, added=((path, None),)))
        super().make_folder(folder)

    def remove_folder(self, folder: Path) -> None:
        path = self._relative(folder)
        self.step(Names(path.parent, removed=(path,)))
        super().remove_folder(folder)

    def create(self, path: Path) -> OpenFile:
        if path.exists():
            raise FileExistsError(path)
        relative, inode = self._relative(path), self.new_inode()
        self._notice(relative.parent)
        self.step(Names(relative.parent, added=((relative, inode),)))
        return RecordingFile(super().create(path), self, inode)

    def _notice(self, folder: Path) -> None:
        """Record files that were removed without this disk: nothing has made their removal durable."""
        removed = [path for path in self.now.names if path.parent == folder and not (self.root / path).exists()]
        for path in removed:
            below = tuple(each for each in self.now.names if path in each.parents)
            self.step(Names(folder, removed=(*below, path)))

    def open(self, path: Path) -> OpenFile:
        self.reading(path)
        if self._relative(path) not in self.now.names:
            raise FileNotFoundError(2, os.strerror(2), str(path))
        inode = self.now.names[self._relative(path)]
        assert inode is not None
        return RecordingFile(super().open(path), self, inode)

    def sync(self, *files: OpenFile) -> None:
        self.step(Sync(tuple(file.inode for file in files if isinstance(file, RecordingFile))))

    def rename(self, old: Path, new: Path) -> None:
        before, after = self._relative(old), self._relative(new)
        self.step(Names(after.parent, removed=(before,), added=((after, self.now.names[before]),)))
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        if not path.exists():
            raise FileNotFoundError(path)
        relative = self._relative(path)
        self.step(Names(relative.parent, removed=(relative,)))
        super().unlink(path)

    def sync_folder(self, folder: Path) -> None:
        self.step(SyncFolder(self._relative(folder)))

    def new_inode(self) -> int:
        self._next_inode += 1
        return self._next_inode


@contextlib.contextmanager
def unfaulted() -> Iterator[None]:
    """Reads of the test itself: they are not counted and do not fail."""
    RecordingDisk.paused += 1
    try:
        yield
    finally:
        RecordingDisk.paused -= 1


def cut_states(disk: RecordingDisk, prefixes: Sequence[int], draw: random.Random) -> Iterator[tuple[int, State]]:
    """For each of these numbers of operations (ascending) one state that a power loss then could leave."""
    durable, waiting, done = disk.initial.copy(), list[Operation](), 0
    for prefix in prefixes:
        while done < prefix:
            durable, waiting = _settle(durable, [*waiting, disk.operations[done]])
            done += 1
        state = durable.copy()
        for outcome in _drawn(waiting, draw):
            state.apply(outcome)
        yield prefix, state


def _drawn(waiting: Sequence[Operation], draw: random.Random) -> Iterator[Operation]:
    """What of the operations that wait is there, drawn in one of several ways: each by itself, file by file (as the
    kernel writes back), the first ones only, the last ones only, all, or nothing."""
    how = draw.choice(("each", "each", "files", "files", "files", "first", "last", "all", "nothing"))
    edge = draw.randint(0, len(waiting))
    of_file: dict[object, bool] = {}
    for number, operation in enumerate(waiting):
        outcomes = list(_outcomes(operation))
        if how == "each":
            outcome = draw.choice(outcomes)
        elif how == "files" and not isinstance(operation, Names):
            inode = operation.write.inode if isinstance(operation, Lost) else getattr(operation, "inode", None)
            outcome = outcomes[of_file.setdefault(inode, draw.random() < 0.5)]
        elif how == "files":
            outcome = outcomes[draw.random() < 0.8]
        else:
            there = {"first": number < edge, "last": number >= edge, "all": True, "nothing": False}[how]
            outcome = outcomes[there]
        if outcome is not None:
            yield outcome


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
                key: tuple[object, ...] = tuple(sorted((str(path), data) for path, data in state.files().items()))
                key += tuple(sorted(str(path) for path, inode in state.names.items() if inode is None))
                if key not in seen:
                    seen.add(key)
                    yield done, state


def _settle(durable: State, waiting: list[Operation]) -> tuple[State, list[Operation]]:
    """Move what the last operation made durable from what waits."""
    last = waiting[-1]
    if isinstance(last, FailedSync):
        dropped = (
            Lost(op) if isinstance(op, Write) and op.inode in last.inodes else op for op in waiting[:-1]
        )  # fmt: skip
        return durable, list(dropped)
    if isinstance(last, Sync):
        return durable, _synced(durable, waiting[:-1], last.inodes)
    if not isinstance(last, SyncFolder):
        return durable, waiting
    rest: list[Operation] = []
    for operation in waiting[:-1]:
        if isinstance(operation, Names) and operation.folder == last.folder:
            durable.apply(operation)
        else:
            rest.append(operation)
    return durable, rest


def _synced(durable: State, waiting: Sequence[Operation], inodes: tuple[int, ...]) -> list[Operation]:
    """A sync writes whole pages: what was lost of them comes with what was written to them later."""
    pages = {
        (op.inode, page) for op in waiting if isinstance(op, Write) and op.inode in inodes for page in _pages(op)
    }  # fmt: skip
    rest: list[Operation] = []
    for operation in waiting:
        if isinstance(operation, Lost) and operation.write.inode in inodes:
            for part in _by_page(operation.write):
                if (part.inode, part.offset // PAGE_BYTES) in pages:
                    durable.apply(part)
                else:
                    rest.append(Lost(part))
        elif isinstance(operation, Write | Truncate) and operation.inode in inodes:
            durable.apply(operation)
        else:
            rest.append(operation)
    return rest


def _pages(write: Write) -> range:
    return range(write.offset // PAGE_BYTES, -(-(write.offset + len(write.data)) // PAGE_BYTES))


def _by_page(write: Write) -> Iterator[Write]:
    for page in _pages(write):
        start, stop = max(write.offset, page * PAGE_BYTES), (page + 1) * PAGE_BYTES
        yield Write(write.inode, start, write.data[start - write.offset : stop - write.offset])


def _outcomes(operation: Operation) -> Iterator[Operation | None]:
    yield None
    if isinstance(operation, Lost):
        yield operation.write
        return
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
