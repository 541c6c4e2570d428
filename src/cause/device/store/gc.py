"""What a crash left behind is destroyed: keys and files that no table names."""

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from cause.device.store import checksum
from cause.device.store.database import Database
from cause.device.store.disk import Disk
from cause.device.store.layout import CONFIG, DEVICE_KEY, LEDGER, UNFINISHED, Layout
from cause.errors import HomeError

if TYPE_CHECKING:
    from cause.device.store.home import Home

KEYED = ("blocks", "staged", "segments", "directory", "sub_models", "requests", "manifests")
"""The tables whose column `key` names keys of the vault. What none of them names does not survive an opening."""

SEALED = re.compile("[0-9a-f]{32}")
"""The name of a file of sealed samples, or of a sealed sub-model: that of its key."""
PARTIAL, REPLACED = ".part", ".replaced"
"""What a restore that was cut off leaves beside the ledger: a new one that is not yet whole, and the replaced one."""


def remove_leftovers(layout: Layout, disk: Disk) -> None:
    """Remove files that a crash left beside a home's own, once the home itself is known to be whole."""
    names = [name for name in disk.names(layout.folder) if name.startswith((LEDGER + PARTIAL, LEDGER + REPLACED))]
    names += [name for name in (CONFIG + ".part", UNFINISHED) if disk.exists(layout.folder / name)]
    if names:
        disk.sync_folder(layout.folder)  # first what took their place
        for name in names:
            disk.unlink(layout.folder / name)
        disk.sync_folder(layout.folder)


def named_keys(database: Database) -> set[bytes]:
    """All keys that a home needs."""
    query = " UNION ALL ".join(f"SELECT key FROM {table} WHERE key IS NOT NULL" for table in KEYED)
    return {bytes(key) for (key,) in database.rows(query)} | {DEVICE_KEY}


def clean(home: "Home") -> None:
    """Destroy keys and files that no table names.

    Only once what was read is durable: otherwise the next opening may find an older state, which still names them.
    Where the disk refuses, they wait until a transaction was committed.
    """
    named, held = named_keys(home.database), home.vault.names()
    listed = [(files, files.names()) for files in (home.store_.files, home.shelf.files)]
    there = {bytes.fromhex(name) for _, names in listed for name in names if SEALED.fullmatch(name)}
    known = {name.hex() for name in named}
    try:
        remove_leftovers(home.layout, home.disk)
    except OSError as error:
        raise HomeError(f"cannot clean up {str(home.layout.folder)!r}: {error.strerror}") from None
    if not home.database.durable or named - held:  # a name that the vault lacks may be one that was damaged
        home.garbage.doubt(held - named, there - named)
        return
    if (held - named) & there:  # whole samples or sub-models: is it the ledger that has lost them?
        problem = checksum.problem(home.database, checksum.rows_key(home.vault, DEVICE_KEY))
        if problem is not None:
            raise HomeError(f"{str(home.layout.folder)!r}: {problem}: `cause doctor --home` tells more")
    home.vault.erase(held - named)
    try:
        for files, names in listed:
            strays = [name for name in names if name not in known]
            for name in strays:
                home.disk.unlink(files.folder / name)
            if strays:
                home.disk.sync_folder(files.folder)
    except OSError as error:
        raise HomeError(f"cannot clean up {str(home.layout.folder)!r}: {error.strerror}") from None
    with suppress(HomeError):  # without room for it, rows that were deleted stay in the write-ahead log for now
        home.database.scrub()
