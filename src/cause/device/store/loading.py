"""Loading a home: ledger and memory are filled from the tables."""

import json
from typing import TYPE_CHECKING

from cause.device.store.seals import open_identity
from cause.engine.memory import Memory, SubModel
from cause.engine.samples import SegmentKey
from cause.errors import HomeError, VaultError

if TYPE_CHECKING:
    from cause.device.store.home import Home

DAMAGED = "the ledger and the keys of {!r} do not fit together ({}): `cause doctor --home` tells more"


def load(home: "Home", memory: Memory) -> None:
    """Fill ledger and memory from the tables; a writer also finishes what an error or a crash stopped.

    Raises
    ------
    HomeError
        If tables and keys do not fit together.
    """
    with home.database.reading():
        load_ledger(home)
        rows = home.database.rows(
            "SELECT shard, round, slice, key, sealed_identity, size_bytes, environment, slot FROM sub_models "
            "ORDER BY slot"
        )
        state = json.loads(home.database.get("policy", "{}"))
    stored, names, unreadable = [], {}, []
    for shard, round_, slice_, name, sealed, size_bytes, environment, slot in rows:
        key, name = SegmentKey(shard, round_, slice_), bytes(name)
        identity = _identity(home, name, bytes(sealed))
        if identity is None:
            unreadable.append(name)
            continue
        names[key] = name
        stored.append((slot, SubModel(key, identity, size_bytes, environment)))
    home.garbage.doubt(home.shelf.all_names() - set(names.values()))
    home.shelf.restore(names, unreadable)
    memory.restore(stored, state)
    if not home.read_only:
        home.destroy()  # first: no receipt may say that keys are destroyed before they are
        home.receipts.issue()  # those that a crash kept from being signed


def load_ledger(home: "Home") -> None:
    """Load the retained samples, the users' names and the staged uploads; HomeError if a key is missing."""
    held = home.vault.names()
    for name, upload in home.database.rows("SELECT key, upload FROM blocks"):
        if name not in held:
            raise HomeError(DAMAGED.format(str(home.layout.folder), f"upload {upload} has lost a key"))
    home.directory.load(home.database, home.vault)
    home.ledger.load()
    home.inbox.load()


def _identity(home: "Home", name: bytes, sealed: bytes) -> bytes | None:
    """The identity of a sub-model; None if it is damaged: the sub-model cannot be used without it."""
    if name not in home.vault:
        return b""  # without its key the sub-model cannot be read, which is found before this is used
    try:
        return open_identity(home.vault, name, sealed)
    except VaultError:
        return None
