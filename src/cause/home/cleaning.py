"""What a crash left behind is destroyed: keys and files that no table names."""

from typing import TYPE_CHECKING

from cause.errors import HomeError
from cause.home.database import Database
from cause.home.log import DEVICE_KEY

if TYPE_CHECKING:
    from cause.home.home import Home

KEYED = ("blocks", "staged", "segments", "directory", "sub_models", "requests", "manifests")
"""The tables whose column `key` names keys of the vault. What none of them names does not survive an opening."""


def named_keys(database: Database) -> set[bytes]:
    """All keys that a home needs."""
    query = " UNION ALL ".join(f"SELECT key FROM {table} WHERE key IS NOT NULL" for table in KEYED)
    return {bytes(key) for (key,) in database.rows(query)} | {DEVICE_KEY}


def clean(home: "Home") -> None:
    """Destroy the rest."""
    named = named_keys(home.database)
    home.vault.erase(home.vault.names() - named)
    known = {name.hex() for name in named}
    try:
        for files in (home.store_.files, home.shelf.files):
            strays = [name for name in files.names() if name not in known]
            for name in strays:
                home.disk.unlink(files.folder / name)
            if strays:
                home.disk.sync_folder(files.folder)
    except OSError as error:
        raise HomeError(f"cannot clean up {str(home.layout.folder)!r}: {error.strerror}") from None
    home.database.scrub()
