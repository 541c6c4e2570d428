"""Restore a home from a backup. The home's own vault is needed: samples whose keys are destroyed stay forgotten."""

import contextlib
import hmac
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cause.common.units import format_bytes
from cause.device import settings
from cause.device.backup.archive import Archive
from cause.device.backup.restore_log import RestoredLog, append_restored_entries
from cause.device.config import Config, key_source, parse_config, read_config
from cause.device.disk import Disk
from cause.device.fsck import UNREADABLE
from cause.device.home.home import Home
from cause.device.home.rollback_check import find_rollback, supersede
from cause.device.store import checksum
from cause.device.store.anchor import Anchor, Mark
from cause.device.store.blocks import Files, Meta, open_block, open_meta
from cause.device.store.database import Database, connect, is_damage
from cause.device.store.gc import PARTIAL, REPLACED, remove_leftovers
from cause.device.store.layout import BLOCKS, CONFIG, DEVICE_KEY, FORMAT, LEDGER, SUB_MODELS, Layout
from cause.device.store.lock import Lock
from cause.device.store.named_keys import named_keys
from cause.device.store.queries import file_names
from cause.device.store.restore_ledger import PrunedRows, prune
from cause.device.store.shelf import PLACE
from cause.device.vault import KeySource, Vault
from cause.errors import HomeError, InputError, ReadError, VaultError

_BATCH = 64  # files that are written before they are made durable together


@dataclass(frozen=True)
class Restored:
    """The result of a restore."""

    ledger: str
    """Which ledger the home has now: "live" if its own was whole, or "backup"."""
    round: int
    """The last round of that ledger."""
    blocks: int
    """How many files of samples were put back."""
    sub_models: int
    """How many files of sub-models were put back."""
    lost: PrunedRows
    """What had to be deleted from the ledger."""
    log: RestoredLog | None
    """Where the entries of the log come from; None if the home kept its own ledger."""


def restore(
    archive: str | Path,
    folder: str | Path,
    *,
    key: Mapping[str, Any] | None = None,
    discard_later: bool = False,
    disk: Disk | None = None,
    clock: Callable[[], float] = time.time,
) -> Restored:
    """Repair a home with a backup of it.

    If the home's own ledger is whole, it stays, and lost or damaged files that it names are put back. Otherwise the
    backup's ledger replaces it, and what came after the backup is lost. In both cases samples without a key or a
    readable file are deleted from the ledger, as if they had been forgotten, with every sub-model that saw them.

    Parameters
    ----------
    archive
        The backup.
    folder
        The home; its vault must be there.
    key
        Where the master key comes from, if `cause.toml` is lost or damaged.
    discard_later
        Go on although samples that came after the backup are destroyed.
    disk, clock
        How files and the time are reached; tests replace them.

    Raises
    ------
    InputError
        If the archive is not a whole backup of this home, or `key` is missing.
    HomeError
        If the vault is missing, the disk is too full, or samples would be destroyed that only a newer backup may hold.
    """
    layout, disk = Layout(folder), disk or Disk()
    with Archive(archive) as opened:
        if not layout.vault.is_dir():
            raise HomeError(
                f"{str(folder)!r} has no vault: a backup holds no keys, so it can only go back into its own home"
            )
        own = _own_config(layout, key)
        source = _source(own, key, layout)
        with Vault.open(layout.vault, source, disk, read_only=True) as vault:
            _check_origin(opened, vault)
        archived = parse_config(opened.checked(CONFIG, opened.manifest.config), CONFIG)
        free = shutil.disk_usage(layout.folder).free
        if opened.size_bytes > free:
            raise HomeError(
                f"the backup needs {format_bytes(opened.size_bytes)}, but {str(folder)!r} has {format_bytes(free)} left"
            )
        with contextlib.closing(Lock(layout.lock)), Vault.open(layout.vault, source, disk, read_only=True) as vault:
            work = _Work(opened, layout, vault, disk, clock())
            restored = work.run(discard_later, own, _with_key(archived, key) if own is None else archived)
    Home(folder, source, disk=disk).close()  # destroys the keys that no table names
    return restored


@dataclass(frozen=True)
class RollbackCost:
    """What accepting an older state of a home destroys."""

    change: int
    """The last change of the ledger as it is."""
    newest: int
    """The last change according to the anchor, or 0 if the anchor is lost."""
    blocks: int
    """How many blocks of samples the older state does not name: their keys are destroyed."""
    sub_models: int
    """How many sub-models it does not name."""
    keys: int
    """How many keys are destroyed, those of requests and receipts included."""


def older_state(folder: str | Path, disk: Disk | None = None) -> RollbackCost:
    """Compute what `accept_older` would destroy. Changes nothing."""
    layout, disk = Layout(folder), disk or Disk()
    with Vault.open(layout.vault, read_config(layout.config).source(layout.folder), disk, read_only=True) as vault:
        anchored = _anchored(layout, vault, disk)
        with contextlib.closing(Database(layout.ledger, read_only=True)) as database:
            change, strays = database.change, vault.names() - named_keys(database)
    blocks, sub_models = (
        sum(name.hex() in set(disk.names(path)) for name in strays) if path.is_dir() else 0
        for path in (layout.blocks, layout.sub_models)
    )
    return RollbackCost(change, 0 if anchored is None else anchored.change, blocks, sub_models, len(strays))


def accept_older(folder: str | Path, *, disk: Disk | None = None, clock: Callable[[], float] = time.time) -> Restored:
    """Accept the ledger of a home as it is, although its anchor names a newer one.

    Samples and sub-models that only the newer state named are destroyed; those whose keys it had destroyed are deleted
    from the ledger. The log gets an entry that records this.

    Raises
    ------
    HomeError
        If the ledger is lost or damaged, or the home is in use.
    """
    layout, disk = Layout(folder), disk or Disk()
    own = read_config(layout.config)
    source = own.source(layout.folder)
    with contextlib.closing(Lock(layout.lock)), Vault.open(layout.vault, source, disk, read_only=True) as vault:
        if not healthy(layout.ledger):
            raise HomeError(f"the ledger {str(layout.ledger)!r} is lost or damaged: `cause restore` needs a backup")
        restored = _Work(None, layout, vault, disk, clock()).run(True, own, own)
    Home(folder, source, disk=disk).close()
    return restored


class _Outdated(Exception):
    """The live ledger is older than its anchor."""


class _Work:
    """A restore under way: it first reads everything, then puts files back, and then changes or replaces the ledger.

    Without an archive it makes the ledger as it is the accepted one (`accept_older`).
    """

    def __init__(self, archive: Archive | None, layout: Layout, vault: Vault, disk: Disk, now: float) -> None:
        self.archive, self.layout, self.vault, self.disk, self.now = archive, layout, vault, disk, now
        self.files = {BLOCKS: Files(layout.blocks, disk), SUB_MODELS: Files(layout.sub_models, disk)}
        self.held = {folder: archive.sealed(folder) if archive else set() for folder in self.files}
        self.anchored = _anchored(layout, vault, disk)
        self._metas: dict[bytes, Meta] = {}
        self._partial = layout.folder / (LEDGER + PARTIAL)
        self._replaced = layout.folder / (LEDGER + REPLACED)

    def run(self, discard_later: bool, own: Config | None, archived: Config) -> Restored:
        try:
            database, live = self._opened()
            with contextlib.closing(database):
                text = self._config(database, live, own, archived)
                names = file_names(database.rows)
                missing = {folder: self._missing(folder, files) for folder, files in names.items()}
                if not discard_later:
                    self._refuse_to_lose(database, live, set(names[BLOCKS]), missing[BLOCKS])
                for files in self.files.values():
                    if not self.disk.exists(files.folder):
                        self.disk.make_folder(files.folder)
                        self.disk.sync_folder(self.layout.folder)
                for folder, (back, _) in missing.items():
                    self._put_back(folder, back)
                database.harden()
                if self.anchored is None:  # before the first change, which it must name
                    Anchor.create(self.layout.vault, self.vault, self.disk)
                    self.anchored = Mark()
                (_, blocks), (_, sub_models) = missing[BLOCKS], missing[SUB_MODELS]
                lost = prune(database, self.vault, blocks, sub_models, self._meta, self.now)
                round_, log = int(database.get("round", 0)), None
                with database.transaction():
                    database.invalidate()
                    settings.record(database, self.vault, text)
                    database.unset(settings.PENDING)
                    if self.archive is None or not live:
                        log = self._append_restored_entries(database, {"round": round_, "samples": lost.samples})
                        supersede(database, self.vault, self.anchored)
                database.scrub()
            if not live:
                self._swap()
            if own is None:
                self.disk.write_whole(self.layout.config, text)
        except OSError as error:
            raise HomeError(f"cannot restore into {str(self.layout.folder)!r}: {error.strerror}") from None
        finally:
            for path in self.layout.folder.glob(LEDGER + PARTIAL + "*"):
                path.unlink(missing_ok=True)
        counts = {folder: len(back) for folder, (back, _) in missing.items()}
        return Restored("live" if live else "backup", round_, counts[BLOCKS], counts[SUB_MODELS], lost, log)

    def _opened(self) -> tuple[Database, bool]:
        """Open the home's own ledger if it is whole and the newest, otherwise a copy of the backup's.

        Returns
        -------
        tuple of (Database, bool)
            The ledger, and whether it is the home's own.
        """
        if healthy(self.layout.ledger):
            with contextlib.suppress(_Outdated):
                check = None if self.archive is None else self._refuse_outdated
                return Database(self.layout.ledger, vault=self.vault, disk=self.disk, check=check), True
        assert self.archive is not None
        for path in self.layout.folder.glob(LEDGER + PARTIAL + "*"):
            path.unlink()
        self.disk.write_whole(self._partial, self.archive.checked(LEDGER, self.archive.manifest.ledger))
        return Database(self._partial, vault=self.vault, disk=self.disk), False

    def _refuse_outdated(self, database: Database) -> None:
        """Refuse a ledger that is older than its anchor, or in which a row was changed."""
        outdated = self.anchored is not None and find_rollback(self.vault, database, self.anchored) is not None
        if outdated or _damaged_rows(database, self.vault):
            database.close()
            raise _Outdated

    def _config(self, database: Database, live: bool, own: Config | None, archived: Config) -> bytes:
        """Return the text of the configuration that will be in force; HomeError if the home's own was edited."""
        accepted = settings.recorded(database, self.vault)
        expected = parse_config(accepted, "the ledger") if accepted is not None and live else archived
        if own is None:
            return _with_key(expected, archived.key).text().encode()
        edited = [change for change in settings.differences(expected, own) if settings.is_fixed(change[0]) or live]
        pending = settings.recorded(database, self.vault, settings.PENDING)
        if pending is not None and live and not settings.differences(parse_config(pending, "the ledger"), own):
            edited = []
        if edited and (live or accepted is not None):
            changes = settings.format_changes(edited)
            raise HomeError(f"{str(self.layout.config)!r} was edited: {changes}: put it back before a restore")
        return self.disk.read(self.layout.config)

    def _append_restored_entries(self, database: Database, about: dict[str, Any]) -> RestoredLog:
        """Continue the log in the restored ledger, with an entry that records the restore."""
        damaged = None
        if self.archive is None or self.anchored is not None:
            newest = self.anchored.change if self.anchored else 0
            about = {**about, "ledger_change": database.change, "newest_change": newest}
        if self.archive is not None:
            damaged = self._replaced if self._replaced.exists() else self.layout.ledger
        made = self.now if self.archive is None else self.archive.manifest.made
        return append_restored_entries(database, self.vault, damaged, made=made, now=self.now, about=about)

    def _refuse_to_lose(
        self, database: Database, live: bool, named: set[bytes], missing: tuple[list[bytes], set[bytes]]
    ) -> None:
        """Refuse a restore that would destroy keys of samples that this archive does not hold: a newer one may.

        With the home's own ledger these are samples that it names and whose files are lost. With the backup's ledger
        they came after the backup: their files are in the home; or, if files of samples were lost, only the number of
        the newest change shows that there may have been some.
        """
        back, lost = missing
        if live:
            held = sum(name in self.vault for name in lost)
            if held:
                raise HomeError(
                    f"{held} blocks of samples are lost or damaged, and this backup does not hold them: their keys "
                    "would be destroyed: take a newer backup, or say --discard-later"
                )
            return
        later = [
            name
            for name in (self.disk.names(self.layout.blocks) if self.layout.blocks.is_dir() else [])
            if len(name) == 32 and bytes.fromhex(name) not in named and bytes.fromhex(name) in self.vault
        ]
        if later:
            raise HomeError(
                f"{len(later)} blocks of samples in {str(self.layout.blocks)!r} are newer than this backup and "
                "would be destroyed: take a newer backup, or say --discard-later"
            )
        files_lost = back or any(name in self.vault for name in lost)
        unnamed = self.vault.names() - named_keys(database)
        if self.anchored is not None and self.anchored.change > database.change and files_lost and unnamed:
            raise HomeError(
                f"the home changed {self.anchored.change - database.change} times after this backup, and files of "
                "samples are lost: samples that came later, if any did, would be destroyed: take a newer backup, or "
                "say --discard-later"
            )

    def _missing(self, folder: str, names: Iterable[bytes]) -> tuple[list[bytes], set[bytes]]:
        """Return the lost or damaged files that the archive holds, and those that it does not hold either."""
        back: list[bytes] = []
        lost: set[bytes] = set()
        for name in names:
            if name not in self.vault:
                lost.add(name)
            elif not self._opens(folder, name, self._live(folder, name)):
                if name in self.held[folder] and self._opens(folder, name, self._archived(folder, name)):
                    back.append(name)
                else:
                    lost.add(name)
        return back, lost

    def _live(self, folder: str, name: bytes) -> bytes:
        """Return the bytes of a file of the home, empty if it is missing; ReadError if it cannot be read now."""
        try:
            return self.files[folder].read(name)
        except ReadError:
            raise
        except HomeError:
            return b""

    def _archived(self, folder: str, name: bytes) -> bytes:
        assert self.archive is not None
        return self.archive.read(f"{folder}/{name.hex()}")

    def _opens(self, folder: str, name: bytes, data: bytes) -> bool:
        try:
            if folder == SUB_MODELS:
                self.vault.open_sealed(name, data, PLACE)
            else:
                open_block(name, self.vault.key(name), data)
                self._metas[name] = open_meta(name, self.vault.key(name), data)
        except UNREADABLE:
            return False
        return True

    def _meta(self, name: bytes) -> Meta:
        return self._metas[name]

    def _put_back(self, folder: str, names: Sequence[bytes]) -> None:
        files = self.files[folder]
        files.remove(names)
        for start in range(0, len(names), _BATCH):
            files.write([(name, self._archived(folder, name)) for name in names[start : start + _BATCH]])

    def _swap(self) -> None:
        """Replace the damaged ledger by the restored one.

        The damaged one is renamed first, the file before its write-ahead log: a restore that is interrupted here finds
        the entries of its log again, and SQLite never applies the old write-ahead log to the new ledger.
        """
        for end in ("", "-wal", "-shm"):
            path = self.layout.folder / (LEDGER + end)
            if not self.disk.exists(path):
                continue
            if end == "-shm" or not self.disk.read(path):
                self.disk.unlink(path)
            else:
                self.disk.rename(path, self.layout.folder / (LEDGER + REPLACED + end))
            self.disk.sync_folder(self.layout.folder)
        self.disk.rename(self._partial, self.layout.ledger)
        self.disk.sync_folder(self.layout.folder)
        remove_leftovers(self.layout, self.disk)


def healthy(ledger: Path) -> bool:
    """Return whether a ledger is there, whole and of a format that this program knows.

    Raises
    ------
    HomeError
        If it cannot be read now: it may be whole, so nothing may replace it.
    """
    if not ledger.is_file():
        return False
    try:
        with contextlib.closing(connect(ledger, True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return bool(1 <= version <= FORMAT and verdict == "ok")
    except sqlite3.Error as error:
        if not is_damage(error):
            reason = " ".join(str(error).split())[:200]
            raise HomeError(f"cannot read the ledger {str(ledger)!r}: {reason}: try again") from None
        return False


def _damaged_rows(database: Database, vault: Vault) -> bool:
    try:
        return checksum.problem(database, checksum.rows_key(vault, DEVICE_KEY)) is not None
    except HomeError:
        return True


def _anchored(layout: Layout, vault: Vault, disk: Disk) -> Mark | None:
    """Return the mark in the anchor; None if the anchor is lost or damaged."""
    try:
        return Anchor(layout.vault, vault, disk, read_only=True).mark
    except FileNotFoundError:
        return None
    except ReadError:
        raise
    except HomeError:
        return None


def _own_config(layout: Layout, key: Mapping[str, Any] | None) -> Config | None:
    """Return the home's own configuration; None if it is lost, or damaged while `key` is given."""
    if not layout.config.exists():
        return None
    try:
        return read_config(layout.config)
    except InputError as error:
        if key is None:
            raise InputError(f"{error} (name the master key, and the backup's configuration takes its place)") from None
        return None


def _source(own: Config | None, key: Mapping[str, Any] | None, layout: Layout) -> KeySource:
    """Return where the master key comes from: never from the archive, which might name a command."""
    if own is not None and key is not None:
        raise InputError(f"{str(layout.config)!r} says where the master key comes from: leave the option out")
    if own is not None:
        return own.source(layout.folder)
    if key is None:
        raise InputError(
            f"{str(layout.config)!r} is lost: say where the master key is (--key-file, --key-env or --key-command)"
        )
    return key_source(key, layout.folder)


def _with_key(config: Config, key: Mapping[str, Any] | None) -> Config:
    return replace(config, key=dict(key or {}))


def _check_origin(archive: Archive, vault: Vault) -> None:
    try:
        expected = vault.commit(DEVICE_KEY, archive.manifest.digest())
    except (VaultError, TypeError, ValueError):
        expected = os.urandom(32)
    if not hmac.compare_digest(expected, archive.commitment):
        raise InputError(f"{str(archive.path)!r} is not a backup of this home, or it was changed")
