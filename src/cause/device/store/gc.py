"""Garbage collection at opening: keys and files that a crash left and that no table names are destroyed."""

import re
from contextlib import suppress

from cause.device.advice import doctor_advice
from cause.device.disk import Disk
from cause.device.store import checksum
from cause.device.store.database import Database
from cause.device.store.layout import CONFIG, DEVICE_KEY, LEDGER, UNFINISHED, Layout
from cause.device.store.named_keys import named_keys
from cause.device.store.sealed_store import SealedStore
from cause.errors import HomeError

SEALED = re.compile("[0-9a-f]{32}")
"""The name of a file of sealed samples, or of a sealed sub-model: that of its key."""
PARTIAL, REPLACED = ".part", ".replaced"
"""Endings of files that an interrupted restore leaves beside the ledger: the unfinished new one, and the old one."""


def remove_leftovers(layout: Layout, disk: Disk) -> None:
    """Remove the files of an interrupted restore or change of settings; call it once the home is known to be whole.

    Raises
    ------
    OSError
        If the disk refuses.
    """
    names = [name for name in disk.names(layout.folder) if name.startswith((LEDGER + PARTIAL, LEDGER + REPLACED))]
    names += [name for name in (CONFIG + ".part", UNFINISHED) if disk.exists(layout.folder / name)]
    if names:
        disk.sync_folder(layout.folder)  # first what took their place
        for name in names:
            disk.unlink(layout.folder / name)
        disk.sync_folder(layout.folder)


def clean(store: SealedStore, database: Database) -> None:
    """Destroy keys and files that no table names.

    If the ledger as read is not durable yet, the next opening may find an older state that still names them: then they
    become uncertain garbage, which waits for a commit.

    Raises
    ------
    HomeError
        If the disk refuses, or if the ledger seems to have lost rows.
    """
    named, held = named_keys(database), store.vault.names()
    listed = [(files, files.names()) for files in (store.blocks.files, store.sub_models)]
    on_disk = {bytes.fromhex(name) for _, names in listed for name in names if SEALED.fullmatch(name)}
    named_files = {name.hex() for name in named}
    try:
        remove_leftovers(store.layout, store.disk)
    except OSError as error:
        raise HomeError(f"cannot clean up {str(store.layout.folder)!r}: {error.strerror}") from None
    if not database.durable or named - held:  # a name that the vault lacks may be one that was damaged
        store.garbage.add_uncertain(held - named, on_disk - named)
        return
    if (held - named) & on_disk:  # whole samples or sub-models: has the ledger lost their rows?
        problem = checksum.problem(database, checksum.rows_key(store.vault, DEVICE_KEY))
        if problem is not None:
            raise HomeError(f"{str(store.layout.folder)!r}: {problem}", doctor_advice(store.layout.folder))
    store.vault.erase(held - named)
    try:
        for files, names in listed:
            strays = [name for name in names if name not in named_files]
            for name in strays:
                with suppress(IsADirectoryError):  # not ours: `lost+found` of a file system of its own, for one
                    store.disk.unlink(files.folder / name)
            if strays:
                store.disk.sync_folder(files.folder)
    except OSError as error:
        raise HomeError(f"cannot clean up {str(store.layout.folder)!r}: {error.strerror}") from None
    with suppress(HomeError):  # without room for it, rows that were deleted stay in the write-ahead log for now
        database.scrub()
