"""Read a vault's files: the newest generation that is whole, and what an interrupted write left beside it.

Nothing is written here. Every file has two copies; what does not authenticate in one is taken from the other and named
in `Loaded.damage`.
"""

from dataclasses import dataclass, field
from pathlib import Path

from cause.device.disk import Disk
from cause.device.vault import keyfile
from cause.device.vault.generation import MAGIC, Generation, open_generation, table_rows
from cause.device.vault.mirrored_file import COPY, MirroredFile
from cause.device.vault.partitions import Partition, Rows
from cause.device.vault.secrets_in_memory import Buffer, wipe
from cause.device.vault.slots import FILE_BYTES, read_slots, slot_page
from cause.errors import VaultError

ROOT = "root"
TABLES = ("table.0", "table.1")
PAGES = "pages"
FILES = tuple(name + end for name in (ROOT, *TABLES, PAGES) for end in ("", COPY))  # what no backup may contain
_CHUNK_BYTES = 4 << 20  # how much of the pages is read at a time


class Files:
    """The files of a vault, each with its second copy."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self.folder = folder
        self.root = MirroredFile(disk, folder / ROOT)
        self.tables = tuple(MirroredFile(disk, folder / name) for name in TABLES)
        self.pages = MirroredFile(disk, folder / PAGES)

    @property
    def all(self) -> tuple[MirroredFile, ...]:
        """All files."""
        return (self.root, *self.tables, self.pages)

    def table(self, generation: int) -> MirroredFile:
        """Return the table of that generation."""
        return self.tables[generation % 2]


@dataclass
class Loaded:
    """The contents of the files.

    Attributes
    ----------
    root_whole : bool
        Whether both copies of `root` hold the generation's slot.
    interrupted : bool
        Whether the slot of another generation is not empty: an erasure was under way.
    newest : bool
        Whether the other slot holds no newer generation.
    rewrite : dict of int to bytes
        Pages that have to be written again, and their bytes: a copy is damaged, or an interrupted erasure wrote them.
    dirty : list of tuple
        (page, start, end) of unused bytes that are not zeros.
    dirty_table : bool
        Whether the table of the other generation is not zeros.
    damage : list of str
        One line for each damaged part of a copy.
    """

    generation: Generation
    table: keyfile.Contents
    interrupted: bool
    newest: bool
    root_whole: bool = True
    partitions: list[Partition] = field(default_factory=list)
    rewrite: dict[int, bytes] = field(default_factory=dict)
    dirty: list[tuple[int, int, int]] = field(default_factory=list)
    dirty_table: bool = False
    damage: list[str] = field(default_factory=list)

    def wipe(self) -> None:
        """Overwrite all keys in memory."""
        wipe(self.generation.root, self.table.rows)
        for partition in self.partitions:
            partition.wipe()


def load(files: Files, roots: list[bytes], master: Buffer) -> Loaded:
    """Read the newest generation that is whole.

    Parameters
    ----------
    roots : list of bytes
        The bytes of both copies of `root`.

    Raises
    ------
    VaultError
        Something is damaged in both copies, or belongs to another vault or master key.
    """
    slots = read_slots(files.root.path, MAGIC, roots)
    generations = [generation for slot in slots if (generation := open_generation(slot, master)) is not None]
    if not generations:
        raise VaultError(f"the master key does not open {str(files.root.path)!r}: it is another vault's")
    for generation in generations:
        try:
            return _load_generation(files, roots, generation, newest=generation.slot is slots[0])
        except VaultError:
            if generation is generations[-1]:
                raise
            wipe(generation.root)  # a power loss came before this generation was whole; the one before still is
    raise AssertionError("unreachable")


def _load_generation(files: Files, roots: list[bytes], generation: Generation, newest: bool) -> Loaded:
    table = files.table(generation.number)
    if len(table.missing()) == 2:
        raise VaultError(f"no vault in {str(files.folder)!r}: {table.path.name!r} is missing")
    contents = keyfile.read(
        repr(str(table.path)), table.read(), generation.root, generation.number, generation.vault_id
    )
    interrupted = any(any(slot_page(root, generation.slot.other_offset)) for root in roots)
    loaded = Loaded(generation, contents, interrupted, newest)
    try:
        _check_root(files, roots, loaded)
        for path, damaged in zip(table.paths, contents.damaged, strict=True):
            if damaged and not interrupted and path not in table.missing():
                loaded.damage.append(f"{str(path)!r} is damaged: the other copy is used")
        other = files.table(generation.number + 1)
        for path, data in zip(other.paths, other.read() if len(other.missing()) < 2 else (), strict=False):
            _check_unused(loaded, f"{str(path)!r}", len(data) - data.count(0))
            loaded.dirty_table |= data.count(0) < len(data)
        _load_pages(files.pages, loaded)
        loaded.damage[:0] = [f"{str(path)!r} is missing" for twin in files.all for path in twin.missing()]
    except BaseException:
        loaded.wipe()
        raise
    return loaded


def _check_root(files: Files, roots: list[bytes], loaded: Loaded) -> None:
    slot = loaded.generation.slot
    expected = slot.encode(MAGIC)
    missing = files.root.missing()
    for path, data in zip(files.root.paths, roots, strict=True):
        page = slot_page(data, slot.offset)
        loaded.root_whole &= len(data) == FILE_BYTES and page == expected
        if path in missing:
            continue
        torn = loaded.interrupted and not any(seen for seen, byte in zip(page, expected, strict=True) if seen != byte)
        if page != expected and not torn:
            loaded.damage.append(f"{str(path)!r} is damaged: the other copy is used")
        elif len(data) != FILE_BYTES:
            loaded.damage.append(f"{str(path)!r} has {len(data)} bytes, expected {FILE_BYTES}")
        other = slot_page(data, slot.other_offset)
        _check_unused(loaded, f"{str(path)!r}", len(other) - other.count(0))


def _check_unused(loaded: Loaded, where: str, differing: int) -> None:
    if keyfile.is_flip(differing):
        loaded.damage.append(f"{where} is damaged where nothing is stored: a byte is not zero")


def _load_pages(pages: MirroredFile, loaded: Loaded) -> None:
    if len(pages.missing()) == 2:
        raise VaultError(f"no vault in {str(pages.path.parent)!r}: {pages.path.name!r} is missing")
    generation, missing = loaded.generation, pages.missing()
    size, total = generation.page_bytes, -(-max(pages.sizes()) // generation.page_bytes)
    rows = {row[0]: row for row in table_rows(loaded.table.rows)}
    if len(rows) * keyfile.ROW_BYTES != len(loaded.table.rows):
        raise VaultError(f"{str(pages.path.parent)!r} is damaged: two keys of one page")
    at_once = max(1, _CHUNK_BYTES // size)
    end = max(total, max(rows, default=-1) + 1)
    for first in range(0, end, at_once):
        count = min(at_once, end - first)
        chunks = pages.read_part(first * size, count * size)
        for page in range(first, first + count):
            start = (page - first) * size
            copies = [chunk[start : start + size] for chunk in chunks]
            if page in rows:
                _load_page(pages, loaded, copies, *rows[page], missing)
            elif page < total and (used := max(len(copy.rstrip(b"\0")) for copy in copies)):
                loaded.dirty.append((page, 0, used))
                for path, copy in zip(pages.paths, copies, strict=True):
                    _check_unused(loaded, f"{str(path)!r}, page {page},", size - copy.count(0))


def _load_page(
    pages: MirroredFile,
    loaded: Loaded,
    copies: list[bytes],
    page: int,
    number: int,
    key: bytearray,
    missing: list[Path],
) -> None:
    where = f"{str(pages.path)!r}, page {page},"
    contents = keyfile.read(where, copies, key, number, loaded.generation.vault_id)
    end = len(contents.image)
    loaded.partitions.append(Partition(page, number, key, Rows(contents.rows), contents.records, contents.last, end))
    written_now = loaded.interrupted and number == loaded.generation.number
    if (written_now and loaded.newest) or any(copy[:end] != contents.image for copy in copies):
        loaded.rewrite[page] = contents.image
    if used := max(len(copy[end:].rstrip(b"\0")) for copy in copies):
        loaded.dirty.append((page, end, end + used))
    for path, damaged in zip(pages.paths, contents.damaged, strict=True):
        if damaged and not written_now and path not in missing:
            loaded.damage.append(f"{str(path)!r}, page {page}, is damaged: the other copy is used")


def last_record(pages: MirroredFile, generation: Generation, partition: Partition) -> bytes:
    """Read the last record of a page again, and check it.

    Raises
    ------
    VaultError
        If the page is damaged, or another process has written it.
    """
    copies = pages.read_part(partition.page * generation.page_bytes, generation.page_bytes)
    where = f"{str(pages.path)!r}, page {partition.page},"
    contents = keyfile.read(where, copies, partition.key, partition.generation, generation.vault_id)
    wipe(contents.rows)
    if len(contents.image) != partition.end:
        raise VaultError(f"{where} was changed by another process: one at a time may write")
    return contents.image[partition.last :]
