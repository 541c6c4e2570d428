"""Write a vault's files: add keys, replace pages at an erasure, and finish what was interrupted.

The rule of recovery: nothing is wiped before everything that replaces it was made durable by this same process.
What a process reads at opening may be in the page cache only (another process wrote it and was killed), and after a
failed sync Linux may show bytes that never reached the disk.
"""

import contextlib
import errno
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cause.device.disk import Disk, OpenFile
from cause.device.vault import keyfile
from cause.device.vault.generation import MAGIC, Generation, new_generation, put_row
from cause.device.vault.loading import PAGES, ROOT, TABLES, Files, Loaded, last_record
from cause.device.vault.mirrored_file import COPY, MirroredFile
from cause.device.vault.partitions import Partition, Partitions, Rows
from cause.device.vault.sealing import KEY_BYTES
from cause.device.vault.secrets_in_memory import wipe, wiping
from cause.device.vault.slots import SLOT_BYTES, slot_file
from cause.device.vault.sources import RotatingKeySource
from cause.errors import VaultError

PAGE_BYTES = 8 * 1024
"""The size of a page in new vaults, up to 168 keys. An erasure writes the pages of its keys anew, twice and as zeros,
and the table of all pages: larger pages are better from about 100,000 keys on."""
_TABLE_STEP = 4096  # by how much tables grow


def reserved_pages(used: int) -> int:
    """Return how many free pages are kept for erasures when so many are used: an upload's keys share one page or a few.

    >>> [reserved_pages(used) for used in (0, 1, 10, 1000)]
    [0, 1, 4, 20]
    """
    return min(used, max(4, math.ceil(used / 50)))


def create(
    disk: Disk, folder: Path, master: bytes | bytearray, page_bytes: int, rows: bytearray, number: int = 1
) -> None:
    """Write the files of a new vault with these rows; `root` is written last, and makes it a vault.

    Parameters
    ----------
    disk, folder
        Where the files are written.
    master
        The master key.
    page_bytes
        The size of a page.
    rows
        Names and keys.
    number
        The number of the first generation.
    """
    generation = new_generation(number, os.urandom(keyfile.ID_BYTES), page_bytes, master)
    pages = -(-len(rows) // (keyfile.rows_in(page_bytes) * keyfile.ROW_BYTES))
    partitions, images = [], []
    for partition, image in _new_pages(generation, rows, list(range(pages))):
        partitions.append(partition)
        images.append(image.ljust(page_bytes, b"\0"))
    table = _table(generation, partitions)
    room = bytes(page_bytes * max(2 - pages, reserved_pages(pages)))
    size = _rounded(len(table) + keyfile.record_bytes(1))
    contents = {PAGES: b"".join(images) + room}
    contents |= {TABLES[at]: (table if at == number % 2 else b"").ljust(size, b"\0") for at in (0, 1)}
    files = []
    try:
        for name, data in contents.items():
            for end in ("", COPY):
                files.append(disk.create(folder / (name + end)))
                files[-1].write_at(0, data)
        disk.sync(*files)
    finally:
        for file in files:
            file.close()
        wipe(generation.root)
        for partition in partitions:
            partition.wipe()
    disk.sync_folder(folder)
    for name in (ROOT, ROOT + COPY):  # from here on it is a vault
        disk.write_whole(folder / name, slot_file(MAGIC, generation.slot))


class Writer:
    """The files of a vault, open for writing, and their current generation.

    Parameters
    ----------
    disk, files
        How files are reached, and which they are.
    partitions
        The keys in memory.
    loaded
        What was read at the opening.
    source
        A source whose master key is replaced at each erasure; None if it cannot be.
    master
        The master key.
    """

    def __init__(
        self,
        disk: Disk,
        files: Files,
        partitions: Partitions,
        loaded: Loaded,
        source: RotatingKeySource | None,
        master: bytes | bytearray,
    ) -> None:
        self.generation = loaded.generation
        self._disk = disk
        self._files = files
        self._partitions = partitions
        self._source = source
        self._master = bytearray(master)
        self._table_end, self._table_records = len(loaded.table.image), loaded.table.records
        self._filling: int | None = None  # the page that takes new keys

    @property
    def _size(self) -> int:
        return self.generation.page_bytes

    def master(self) -> bytearray:
        """Return a copy of the master key: one of a source that can be read only once, or only at the start."""
        return bytearray(self._master)

    def sync(self, twins: Iterable[MirroredFile], others: Sequence[OpenFile] = ()) -> None:
        """Make files durable, all at the same time."""
        self._disk.sync(*(file for twin in twins for file in twin.files), *others)

    def wipe(self) -> None:
        """Overwrite all keys held here."""
        wipe(self._master, self.generation.root)

    # Opening

    def recover(self, loaded: Loaded) -> None:
        """Finish or undo what was interrupted, restore damaged copies, and make all of it durable."""
        slot, table = loaded.generation.slot, self._files.table(loaded.generation.number)
        if not all(loaded.table.whole) or (loaded.interrupted and loaded.newest):
            table.write_at(0, loaded.table.image)
        elif loaded.table.records > 1:  # the only one that another process may not have made durable
            table.write_at(loaded.table.last, loaded.table.image[loaded.table.last :])
        if not loaded.root_whole or (loaded.interrupted and loaded.newest):
            self._files.root.grow(2 * SLOT_BYTES)
            self._files.root.write_at(slot.offset, slot.encode(MAGIC))
        for page, image in loaded.rewrite.items():
            self._files.pages.write_at(page * self._size, image)
        self.sync(self._files.all)
        self._disk.sync_folder(self._files.folder)
        wipe(loaded.table.rows)
        if self._source:
            self._source.settle()
        # Also where zeros are seen: after a failed sync the old key may still be on the disk.
        self._files.root.write_at(slot.other_offset, bytes(SLOT_BYTES))
        self.sync([self._files.root])
        self._clean(loaded)
        try:
            self._grow(len(self._partitions.pages), self._table_end)
        except OSError as error:
            if not _is_full(error):  # a full disk must not keep a vault from being opened
                raise

    def _clean(self, loaded: Loaded) -> None:
        """Overwrite bytes that no key opens any more."""
        other, current = self._files.table(self.generation.number + 1), self._files.table(self.generation.number)
        changed = []
        if loaded.dirty_table:
            _clear(other, 0)
            changed.append(other)
        if not all(loaded.table.whole):
            _clear(current, self._table_end)
            changed.append(current)
        for page, start, end in loaded.dirty:
            self._files.pages.write_at(page * self._size + start, bytes(end - start))
        if loaded.dirty:
            changed.append(self._files.pages)
        if changed:
            self.sync(changed)

    # Adding

    def prepare(self, count: int) -> int | None:
        """Find or make room for so many keys: a page that takes them all, or none if they get pages of their own.

        Raises
        ------
        VaultError
            There is no room. Nothing has changed.
        """
        size = keyfile.record_bytes(count)
        if self._filling is not None and self._room(self._partitions.pages[self._filling]) >= size:
            return self._filling
        # A page that is half empty is filled again before a new one is opened.
        place = self._partitions.choose(lambda partition: self._room(partition) >= max(size, self._size // 2))
        if place is None:
            new = self._pages_for(count)
            try:
                self._grow(len(self._partitions.pages) + new, self._table_end + keyfile.record_bytes(new))
            except OSError as error:
                if _is_full(error):
                    place = self._partitions.choose(lambda partition: self._room(partition) >= size)
                if place is None:
                    raise VaultError(
                        f"no room for more keys in {str(self._files.folder)!r}: {error.strerror or error}"
                    ) from None
        self._filling = place
        return place

    def put(self, place: int | None, rows: bytearray, others: Sequence[OpenFile]) -> None:
        """Store rows in the page that `prepare` returned."""
        if place is not None:
            self._append(place, rows, others)
            return
        free = self._free()
        new = []
        for partition, image in _new_pages(self.generation, rows, free):
            self._files.pages.write_at(partition.page * self._size, image)
            new.append(partition)
        self.sync([self._files.pages], others)
        table = self._files.table(self.generation.number)
        with wiping(_rows_of(new)) as table_rows:
            data = keyfile.record(self.generation.root, self.generation.head, self._table_records, table_rows)
        table.write_at(self._table_end, data)  # one record: all of the pages, or none
        self.sync([table], others)
        self._table_end, self._table_records = self._table_end + len(data), self._table_records + 1
        for partition in new:
            self._filling = self._partitions.add(partition)

    def _append(self, place: int, rows: bytearray, others: Sequence[OpenFile]) -> None:
        partition = self._partitions.pages[place]
        start = partition.page * self._size
        if not partition.durable and partition.records > 1:
            self._files.pages.write_at(
                start + partition.last, last_record(self._files.pages, self.generation, partition)
            )
            self.sync([self._files.pages], others)
        head = keyfile.head(partition.generation, self.generation.vault_id)
        data = keyfile.record(partition.key, head, partition.records, rows)
        self._files.pages.write_at(start + partition.end, data)
        self.sync([self._files.pages], others)
        partition.last, partition.end = partition.end, partition.end + len(data)
        partition.records, partition.durable = partition.records + 1, True
        self._partitions.extend(place, rows)

    def _room(self, partition: Partition) -> int:
        return self._size - partition.end

    def _pages_for(self, count: int) -> int:
        return -(-count // keyfile.rows_in(self._size))

    def _free(self) -> list[int]:
        """Return the pages that both files have and that hold nothing."""
        used = {partition.page for partition in self._partitions.pages.values()}
        total = min(file.size() for file in self._files.pages.files) // self._size
        return [page for page in range(total) if page not in used]

    def _grow(self, pages: int, table_end: int) -> None:
        """Extend the files so that they have room for this many pages, for their table, and for erasures."""
        compact = keyfile.HEAD_BYTES + keyfile.record_bytes(pages)
        grown = [twin for twin in self._files.tables if twin.grow(_rounded(max(table_end, compact)))]
        if self._files.pages.grow((pages + reserved_pages(pages)) * self._size):
            grown.append(self._files.pages)
        if grown:
            self.sync(grown)

    # Erasing. At each point at least one of two generations can be opened, and the newer one is taken if it is whole:
    # its slot, table and pages are made durable before anything of the old one is touched.

    def erase(self, places: dict[int, set[bytes]], others: Sequence[OpenFile]) -> None:
        """Destroy keys: as many of them as there are free pages for, which are taken out of `places`."""
        old, free = self.generation, self._free()
        if not free:  # both files were cut short by something else; pages that become empty need none
            with contextlib.suppress(OSError):
                self._grow(len(self._partitions.pages), self._table_end)
            free = self._free()
        if self._source:
            with wiping(os.urandom(KEY_BYTES)) as drawn:
                master = bytearray(drawn)
        else:
            master = self._master
        new = new_generation(old.number + 1, old.vault_id, old.page_bytes, master)
        replaced = self._replace_pages(new, places, free)
        pages = self._partitions.pages
        table, old_table = self._files.table(new.number), self._files.table(old.number)
        image = _table(new, [page for place in pages if (page := replaced.get(place, pages[place])) is not None])
        table.write_at(0, image)
        self._files.root.write_at(new.slot.offset, new.slot.encode(MAGIC))
        self.sync([self._files.root, table, self._files.pages], others)
        if self._source:
            self._source.rotate(bytes(master))
        self._files.root.write_at(new.slot.other_offset, bytes(SLOT_BYTES))
        self.sync([self._files.root], others)
        # None of these opens any more, so this need not be durable: `recover` repeats it.
        old_table.write_at(0, bytes(self._table_end))
        for place, partition in replaced.items():
            self._files.pages.write_at(pages[place].page * self._size, bytes(pages[place].end))
            self._partitions.replace(place, partition)
            if partition is None and self._filling == place:
                self._filling = None
        wipe(old.root)
        if master is not self._master:
            wipe(self._master)
        self.generation, self._master = new, master
        self._table_end, self._table_records = len(image), 1

    def _replace_pages(
        self, new: Generation, places: dict[int, set[bytes]], free: list[int]
    ) -> dict[int, Partition | None]:
        """Write new versions of pages into free ones; nothing takes the place of a page that becomes empty."""
        replaced: dict[int, Partition | None] = {}
        for place in list(places):
            partition, names = self._partitions.pages[place], places[place]
            if len(names) == len(partition.rows):
                replaced[place] = None
            elif free:
                rows = partition.rows.without(names)
                with wiping(os.urandom(KEY_BYTES)) as drawn:
                    key = bytearray(drawn)
                replaced[place], image = _new_page(new, rows, free.pop(0), key)
                self._files.pages.write_at(replaced[place].page * self._size, image)  # type: ignore[union-attr]
            else:
                continue
            del places[place]
        if not replaced:
            raise OSError(f"no free page in {str(self._files.pages.path)!r}")
        return replaced


def _new_page(generation: Generation, rows: Rows, page: int, key: bytearray) -> tuple[Partition, bytes]:
    image = generation.head + keyfile.record(key, generation.head, 0, rows.data)
    last = len(generation.head)
    return Partition(page, generation.number, key, rows, 1, last, len(image), durable=True), image


def _new_pages(generation: Generation, rows: bytearray, free: Sequence[int]) -> Iterator[tuple[Partition, bytes]]:
    """Yield rows spread over as many pages as they need, each under a fresh key."""
    step = keyfile.rows_in(generation.page_bytes) * keyfile.ROW_BYTES
    for start, page in zip(range(0, len(rows), step), free, strict=False):
        with wiping(os.urandom(KEY_BYTES)) as drawn:
            key = bytearray(drawn)
        yield _new_page(generation, Rows(rows[start : start + step]), page, key)


def _rows_of(partitions: Sequence[Partition]) -> bytearray:
    """Return the rows of the table of pages."""
    rows = bytearray(len(partitions) * keyfile.ROW_BYTES)
    for at, partition in enumerate(partitions):
        put_row(rows, at, partition.page, partition.generation, partition.key)
    return rows


def _table(generation: Generation, partitions: Sequence[Partition]) -> bytes:
    with wiping(_rows_of(partitions)) as rows:
        return generation.head + keyfile.record(generation.root, generation.head, 0, rows)


def _clear(twin: MirroredFile, start: int) -> None:
    """Overwrite a file from there on with zeros."""
    for file in twin.files:
        if (size := file.size()) > start:
            file.write_at(start, bytes(size - start))


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _rounded(size: int) -> int:
    return -(-size // _TABLE_STEP) * _TABLE_STEP


@contextlib.contextmanager
def failing(what: str) -> Iterator[None]:
    """Turn an OSError into a VaultError that says what could not be done."""
    try:
        yield
    except OSError as error:
        raise VaultError(f"{what}: {error.strerror or error}") from None
