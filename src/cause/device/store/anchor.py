"""The anchor: a small sealed record beside the keys that tells an older ledger from the newest one.

It names the ledger's last change, the head of the log and the digest of `cause.toml`. It is written after the commit
that it names is durable, and becomes durable with the next sync of the keys: at the latest with each erasure, and when
the home is closed. So the anchor may be older than the ledger, never newer. A ledger that is older than the anchor has
lost its write-ahead log, or is an old copy.

The file has two slots, each in two copies, each copy a page of its own. New records go into one slot until a sync has
made them durable, while the other keeps the last durable one: a torn write leaves that, and a damaged page leaves its
copy.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from cause.device.disk import Disk, OpenFile
from cause.device.log.merkle import EMPTY_ROOT
from cause.device.store.layout import ANCHOR, DEVICE_KEY
from cause.device.vault import Vault, open_sealed, seal
from cause.errors import HomeError, ReadError, VaultError

PAGE_BYTES = 4096
_PAGES = 4
_HEAD = struct.Struct(">8sH")  # magic, length of what is sealed
_BODY = struct.Struct(">QQQ32s32s")  # number of the record; change; size and root of the log; digest of cause.toml
_MAGIC = b"CAUSEANC"
_PLACE = b"anchor"
NO_DIGEST = bytes(32)


@dataclass(frozen=True)
class Mark:
    """A state of the ledger."""

    change: int = 0
    """The number of its last change."""
    log_size: int = 0
    log_root: bytes = EMPTY_ROOT
    config: bytes = NO_DIGEST
    """SHA-256 of the `cause.toml` that was accepted last; zeros before the first one."""

    def packed(self, number: int = 0) -> bytes:
        """Return the mark as bytes, with the number of the record."""
        return _BODY.pack(number, self.change, self.log_size, self.log_root, self.config)


class Anchor:
    """The anchor of a home.

    Parameters
    ----------
    folder
        The vault's folder.
    vault
        Holds the device's own key, under which the record is sealed.

    Raises
    ------
    FileNotFoundError
        If there is none: the home was made by an older version, or has lost it.
    HomeError
        If there is one and neither of its copies can be used.
    """

    def __init__(self, folder: Path, vault: Vault, disk: Disk, *, read_only: bool = False) -> None:
        self.path, self._disk, self._key = folder / ANCHOR, disk, vault.key(DEVICE_KEY)
        try:
            data = disk.read(self.path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ReadError(f"cannot read {str(self.path)!r}: {error.strerror}: try again") from None
        records = [self._opened(data[page * PAGE_BYTES :][:PAGE_BYTES]) for page in range(_PAGES)]
        self._number, self.mark = max(
            (record for record in records if record), key=lambda record: record[0], default=(-1, Mark())
        )
        if self._number < 0:
            raise HomeError(
                f"{str(self.path)!r} is damaged: without it nobody can tell an old ledger from the newest one; "
                "`cause restore` with a backup makes it anew"
            )
        self.damaged = len(data) != _PAGES * PAGE_BYTES or any(
            record is None and any(data[page * PAGE_BYTES :][:PAGE_BYTES]) for page, record in enumerate(records)
        )
        """Whether a page holds something else than a record or zeros: a torn write, or damage that its copy mends."""
        self.file: OpenFile | None = None
        self._durable = records.index((self._number, self.mark)) % 2  # the slot of the last durable record
        self._unsynced = False
        if not read_only:
            try:
                self.file = disk.open(self.path)
            except OSError as error:
                raise HomeError(f"cannot open {str(self.path)!r}: {error.strerror}") from None
            vault.sync_with.append(self.file)
            vault.on_recovery.append(self._write_again)
            self._rewrite()

    @classmethod
    def create(cls, folder: Path, vault: Vault, disk: Disk, mark: Mark | None = None) -> None:
        """Make a new anchor, durably, in place of an old one.

        Parameters
        ----------
        folder
            The vault's folder.
        vault
            Holds the key that it is sealed with.
        disk
            How files are written.
        mark
            The state that it names; that of an empty ledger by default.
        """
        page = _record(vault.key(DEVICE_KEY), 0, mark or Mark()).ljust(PAGE_BYTES, b"\0")
        empty = bytes(PAGE_BYTES)
        try:
            disk.write_whole(folder / ANCHOR, page + empty + page + empty)
        except OSError as error:
            raise HomeError(f"cannot write {str(folder / ANCHOR)!r}: {error.strerror}") from None

    def write(self, mark: Mark) -> None:
        """Write a state that is durable. The record itself is durable after the next sync of the keys."""
        if self.file is None:
            raise HomeError(f"{str(self.path)!r} was opened for reading only")
        self._put(self.file, 1 - self._durable, self._number + 1, mark)
        self._number, self.mark, self._unsynced = self._number + 1, mark, True

    def _put(self, file: OpenFile, slot: int, number: int, mark: Mark) -> None:
        record = _record(self._key, number, mark)  # all have the same length, and zeros follow
        try:
            for copy in (0, 2):
                file.write_at((copy + slot) * PAGE_BYTES, record)
        except OSError as error:
            raise HomeError(f"cannot write {str(self.path)!r}: {error.strerror}") from None

    def _write_again(self) -> None:
        """Write the last record again, after a sync that failed: it may be in the page cache alone."""
        if self.file is not None and self._unsynced:
            self._put(self.file, 1 - self._durable, self._number, self.mark)

    def _rewrite(self) -> None:
        """Write the record that was read anew, in both copies, and sync it: it may be in the page cache alone."""
        assert self.file is not None
        try:
            data = self._disk.read(self.path).ljust(_PAGES * PAGE_BYTES, b"\0")
        except OSError as error:
            raise ReadError(f"cannot read {str(self.path)!r}: {error.strerror}: try again") from None
        pages = [data[(copy + self._durable) * PAGE_BYTES :][:PAGE_BYTES] for copy in (0, 2)]
        whole = next(page for page in pages if self._opened(page))
        try:
            for copy in (0, 2):  # the same bytes: a torn write changes nothing
                self.file.write_at((copy + self._durable) * PAGE_BYTES, whole)
            self._disk.sync(self.file)
        except OSError as error:
            raise HomeError(f"cannot write {str(self.path)!r}: {error.strerror}") from None

    def synced(self) -> None:
        """Note that the last record is durable: the next one goes into the other slot."""
        if self._unsynced:
            self._durable, self._unsynced = 1 - self._durable, False

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def _opened(self, page: bytes) -> tuple[int, Mark] | None:
        if len(page) < _HEAD.size:
            return None
        magic, length = _HEAD.unpack_from(page)
        try:
            number, *parts = _BODY.unpack(open_sealed(self._key, page[_HEAD.size :][:length], _PLACE))
        except (VaultError, struct.error):
            return None
        return (number, Mark(*parts)) if magic == _MAGIC else None


def _record(key: bytes, number: int, mark: Mark) -> bytes:
    sealed = seal(key, mark.packed(number), _PLACE)
    return _HEAD.pack(_MAGIC, len(sealed)) + sealed


def remove_partial(folder: Path, disk: Disk) -> None:
    """Remove the file of an anchor whose creation a crash interrupted."""
    partial = folder / (ANCHOR + ".part")
    if disk.exists(partial):
        try:
            disk.unlink(partial)
        except OSError as error:
            raise HomeError(f"cannot remove {os.fspath(partial)!r}: {error.strerror}") from None
