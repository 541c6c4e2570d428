"""Take a backup of a home. It holds no key, so what is erased later stays erased in it, too."""

import contextlib
import hashlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from cause.common.files import absolute, check_writable
from cause.common.home_paths import refuse_inside_home
from cause.common.version import __version__
from cause.device.advice import doctor_advice
from cause.device.backup.archive import VERSION, ArchiveWriter, Manifest, manifest_bytes
from cause.device.disk import Disk
from cause.device.home.home import Home
from cause.device.store.blocks import Files
from cause.device.store.database import connect
from cause.device.store.layout import BLOCKS, CONFIG, DEVICE_KEY, LEDGER, SUB_MODELS
from cause.device.store.queries import file_names, last_round
from cause.errors import HomeError, InputError, ReadError


@dataclass(frozen=True)
class BackedUp:
    """What a backup holds."""

    file: str
    round: int
    blocks: int
    sub_models: int
    bytes: int


def snapshot(ledger: Path) -> bytes:
    """Return the ledger's bytes at one moment, without free pages, while others may be writing."""
    try:
        with contextlib.closing(connect(ledger, True)) as live, contextlib.closing(sqlite3.connect(":memory:")) as copy:
            live.backup(copy)
            copy.execute("VACUUM")
            return copy.serialize()
    except sqlite3.Error as error:
        raise HomeError(f"cannot read the ledger {str(ledger)!r}: {error}", doctor_advice(ledger.parent)) from None


def backup(home: Home, target: str | Path) -> BackedUp:
    """Write all of a home but its keys into one file. The home may be in use meanwhile.

    A file that is deleted after the ledger's snapshot was forgotten or replaced: it is left out.
    """
    layout, path = home.layout, absolute(target)
    refuse_inside_home(path, "a backup")
    check_writable(path)
    if path.exists():
        raise InputError(f"{str(path)!r} is there already: name a new file for the backup")
    ledger, config = snapshot(layout.ledger), layout.config.read_bytes()
    with contextlib.closing(sqlite3.connect(":memory:")) as copy:
        copy.deserialize(ledger)
        names, round_ = file_names(copy.execute), last_round(copy.execute)
    digests = [hashlib.sha256(data).hexdigest() for data in (ledger, config)]
    manifest = Manifest(VERSION, __version__, home.clock(), round_, *digests)
    signed = manifest_bytes(manifest, home.vault.commit(DEVICE_KEY, manifest.digest()))
    counts = {BLOCKS: 0, SUB_MODELS: 0}
    partial = path.with_name(path.name + ".part")
    try:
        with open(partial, "xb", opener=_private) as file:  # a Path's own takes no opener
            writer = ArchiveWriter(file)
            for name, data in (("manifest.json", signed), (CONFIG, config), (LEDGER, ledger)):
                writer.add(name, data)
            for folder, files in ((BLOCKS, home.store.blocks.files), (SUB_MODELS, home.shelf.files)):
                counts[folder] = _add(writer, folder, files, names[folder], home.disk)
            writer.close()
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        partial.rename(path)
        home.disk.sync_folder(path.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return BackedUp(str(target), manifest.round, counts[BLOCKS], counts[SUB_MODELS], size)


def _private(path: str, flags: int) -> int:
    """Return a file that is its owner's alone, as all of a home's are."""
    return os.open(path, flags, 0o600)


def _add(writer: ArchiveWriter, folder: str, files: Files, names: list[bytes], disk: Disk) -> int:
    count = 0
    for name in names:
        try:
            data = disk.read(files.path(name))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ReadError(f"cannot read {str(files.path(name))!r}: {error.strerror}: try again") from None
        writer.add(f"{folder}/{name.hex()}", data)
        count += 1
    return count
