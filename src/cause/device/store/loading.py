"""A home is opened: ledger and memory get what the tables hold."""

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
    """Fill ledger and memory with what the tables hold."""
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
        home.destroy()  # what an error kept from being destroyed: no receipt may say that it is gone before it is
        home.receipts.issue()  # what a crash kept from being signed


def load_ledger(home: "Home") -> None:
    """What is retained, whose it is, and what waits for a round."""
    held = home.vault.names()
    for name, upload in home.database.rows("SELECT key, upload FROM blocks"):
        if name not in held:
            raise HomeError(DAMAGED.format(str(home.layout.folder), f"upload {upload} has lost a key"))
    home.directory.load(home.database, home.vault)
    home.ledger.load()
    home.inbox.load()


def _identity(home: "Home", name: bytes, sealed: bytes) -> bytes | None:
    """A sub-model's; none if it is damaged, and then the sub-model is as good as damaged itself."""
    if name not in home.vault:
        return b""  # whoever wants the sub-model will find it lost, before anything is made of this
    try:
        return open_identity(home.vault, name, sealed)
    except VaultError:
        return None
