"""Put a backup back into a home whose live vault is there. Whatever has no key any more stays forgotten."""

import contextlib
import hmac
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cause.disk import Disk
from cause.errors import HomeError, InputError, ReadError, VaultError
from cause.home.archive import Archive
from cause.home.blocks import Files, Meta, open_block, open_meta
from cause.home.check import UNREADABLE
from cause.home.config import Config, key_source, parse_config, read_config
from cause.home.database import Database, connect, is_damage
from cause.home.home import Home
from cause.home.layout import BLOCKS, CONFIG, FORMAT, LEDGER, SUB_MODELS, Layout
from cause.home.lock import Lock
from cause.home.log import DEVICE_KEY
from cause.home.prune import Lost, prune
from cause.home.salvage import RestoredLog, carry_on
from cause.home.shelf import PLACE
from cause.units import format_bytes
from cause.vault import KeySource, Vault

_BATCH = 64  # files that are written before they are made durable together


@dataclass(frozen=True)
class Restored:
    """What came back, and what did not."""

    ledger: str
    """Whose records the home has now: "live" if its own were whole, or "backup"."""
    round: int
    blocks: int
    """Files of samples that were put back."""
    sub_models: int
    lost: Lost
    log: RestoredLog | None
    """With the backup's ledger: what became of the log."""


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

    Where the home's own ledger is whole, it stays, and lost or damaged files that it names are put back. Otherwise the
    backup's ledger takes its place, and what came after it is lost. Either way samples without a key or a readable file
    leave the records, as if they had been forgotten, and with them every sub-model that saw them.
    """
    layout, disk = Layout(folder), disk or Disk()
    with Archive(archive) as found:
        if not layout.vault.is_dir():
            raise HomeError(
                f"{str(folder)!r} has no vault: a backup holds no keys, so it can only go back into its own home"
            )
        own = _own_config(layout, key)
        source = _source(own, key, layout)
        with Vault.open(layout.vault, source, disk, read_only=True) as vault:
            _check_origin(found, vault)
        config = own or _with_key(parse_config(found.checked(CONFIG, found.manifest.config), CONFIG), key)
        free = shutil.disk_usage(layout.folder).free
        if found.size_bytes > free:
            raise HomeError(
                f"the backup needs {format_bytes(found.size_bytes)}, but {str(folder)!r} has {format_bytes(free)} left"
            )
        lock = Lock(layout.lock)
        try:
            with Vault.open(layout.vault, source, disk, read_only=True) as vault:
                done = _Work(found, layout, vault, disk, clock()).run(discard_later)
        finally:
            lock.close()
    if own is None:
        disk.write_whole(layout.config, config.text().encode())
    Home(folder, source, disk=disk).close()  # destroys the keys of what is not there
    return done


class _Work:
    """A restore under way: first everything is looked at, then files are put back, then the ledger."""

    def __init__(self, archive: Archive, layout: Layout, vault: Vault, disk: Disk, now: float) -> None:
        self.archive, self.layout, self.vault, self.disk, self.now = archive, layout, vault, disk, now
        self.files = {BLOCKS: Files(layout.blocks, disk), SUB_MODELS: Files(layout.sub_models, disk)}
        self.held = {folder: archive.sealed(folder) for folder in self.files}
        self._metas: dict[bytes, Meta] = {}

    def run(self, discard_later: bool) -> Restored:
        live = healthy(self.layout.ledger)
        partial = self.layout.folder / (LEDGER + ".part")
        try:
            if not live:
                data = self.archive.checked(LEDGER, self.archive.manifest.ledger)
                self.disk.write_whole(partial, data)
            database = Database(self.layout.ledger if live else partial, vault=self.vault)
            with contextlib.closing(database):
                names = {
                    BLOCKS: [
                        bytes(name)
                        for (name,) in database.rows("SELECT key FROM blocks UNION ALL SELECT key FROM staged")
                    ],
                    SUB_MODELS: [bytes(name) for (name,) in database.rows("SELECT key FROM sub_models")],
                }
                if not live and not discard_later:
                    self._refuse_to_lose(set(names[BLOCKS]))
                wanted = {folder: self._missing(folder, own) for folder, own in names.items()}
                for files in self.files.values():
                    files.folder.mkdir(mode=0o700, exist_ok=True)
                for folder, (back, _) in wanted.items():
                    self._put_back(folder, back)
                gone = {folder: lost for folder, (_, lost) in wanted.items()}
                lost = prune(database, self.vault, gone[BLOCKS], gone[SUB_MODELS], self._meta, self.now)
                round_, log = int(database.get("round", 0)), None
                if not live:
                    log = self._carry_on(database, {"round": round_, "samples": lost.samples})
                database.scrub()
            if not live:
                self._swap(partial)
        except OSError as error:
            raise HomeError(f"cannot restore into {str(self.layout.folder)!r}: {error.strerror}") from None
        finally:
            if not live:
                for path in self.layout.folder.glob(LEDGER + ".part*"):
                    path.unlink(missing_ok=True)
        counts = {folder: len(back) for folder, (back, _) in wanted.items()}
        return Restored("live" if live else "backup", round_, counts[BLOCKS], counts[SUB_MODELS], lost, log)

    def _carry_on(self, database: Database, about: dict[str, Any]) -> RestoredLog:
        made = self.archive.manifest.made
        return carry_on(database, self.vault, self.layout.ledger, made=made, now=self.now, about=about)

    def _refuse_to_lose(self, named: set[bytes]) -> None:
        """Samples that came after the backup would lose their keys for good."""
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

    def _missing(self, folder: str, names: Iterable[bytes]) -> tuple[list[bytes], set[bytes]]:
        """What the archive puts back, and what nobody has."""
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
        """The file's bytes; none if it is missing. One that cannot be read now ends the restore."""
        try:
            return self.files[folder].read(name)
        except ReadError:
            raise
        except HomeError:
            return b""

    def _archived(self, folder: str, name: bytes) -> bytes:
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

    def _swap(self, partial: Path) -> None:
        for end in ("-wal", "-shm"):  # of the ledger that is replaced
            with contextlib.suppress(FileNotFoundError):
                self.disk.unlink(self.layout.folder / (LEDGER + end))
        self.disk.rename(partial, self.layout.ledger)
        self.disk.sync_folder(self.layout.folder)


def healthy(ledger: Path) -> bool:
    """Whether a ledger is there, whole and of a format that this program knows.

    Raises
    ------
    HomeError
        If it cannot be read now: nothing is known of what it holds, so nothing may take its place.
    """
    if not ledger.is_file():
        return False
    try:
        with contextlib.closing(connect(ledger, True)) as found:
            (version,) = found.execute("PRAGMA user_version").fetchone()
            (verdict,) = found.execute("PRAGMA integrity_check(1)").fetchone()
            return bool(1 <= version <= FORMAT and verdict == "ok")
    except sqlite3.Error as error:
        if not is_damage(error):
            raise HomeError(f"cannot read the ledger {str(ledger)!r}: {error}: try again") from None
        return False


def _own_config(layout: Layout, key: Mapping[str, Any] | None) -> Config | None:
    """The home's own configuration, if it is there and readable; a damaged one is replaced when the key is named."""
    if not layout.config.exists():
        return None
    try:
        return read_config(layout.config)
    except InputError as error:
        if key is None:
            raise InputError(f"{error} (name the master key, and the backup's configuration takes its place)") from None
        return None


def _source(own: Config | None, key: Mapping[str, Any] | None, layout: Layout) -> KeySource:
    """Where the master key comes from. Never as an archive says: it might name a command."""
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
    return Config(config.settings, dict(key or {}), config.learner)


def _check_origin(archive: Archive, vault: Vault) -> None:
    try:
        expected = vault.commit(DEVICE_KEY, archive.manifest.digest())
    except (VaultError, TypeError, ValueError):
        expected = os.urandom(32)
    if not hmac.compare_digest(expected, archive.commitment):
        raise InputError(f"{str(archive.path)!r} is not a backup of this home, or it was changed")
