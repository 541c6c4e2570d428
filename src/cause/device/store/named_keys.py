"""The names of the keys that the ledger needs."""

from cause.device.store.database import Database
from cause.device.store.layout import DEVICE_KEY

KEYED = ("blocks", "staged", "segments", "directory", "sub_models", "requests", "manifests")
"""The tables whose column `key` names keys of the vault. Keys that none of them names are destroyed at opening."""


def named_keys(database: Database) -> set[bytes]:
    """Return the names of all keys that a home needs."""
    query = " UNION ALL ".join(f"SELECT key FROM {table} WHERE key IS NOT NULL" for table in KEYED)
    return {bytes(key) for (key,) in database.rows(query)} | {DEVICE_KEY}
