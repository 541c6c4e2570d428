"""A home is opened: ledger and memory get what the tables hold."""

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from cause import positions as pos
from cause.errors import HomeError, VaultError
from cause.home.seals import open_digest, open_identity, upload_key
from cause.home.uploads import Blocks, StoredUpload
from cause.memory import Memory, SubModel
from cause.samples import Piece, SegmentKey
from cause.vault import open_sealed

if TYPE_CHECKING:
    from cause.home.home import Home

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
    stored, names, spoilt = [], {}, []
    for shard, round_, slice_, name, sealed, size_bytes, environment, slot in rows:
        key, name = SegmentKey(shard, round_, slice_), bytes(name)
        identity = _identity(home, name, bytes(sealed))
        if identity is None:
            spoilt.append(name)
            continue
        names[key] = name
        stored.append((slot, SubModel(key, identity, size_bytes, environment)))
    home.garbage.doubt({*home.shelf.names.values(), *home.shelf.doomed} - set(names.values()))
    home.shelf.restore(names)
    home.shelf.doomed += spoilt
    memory.restore(stored, state)
    if not home.read_only:
        home.destroy()  # what an error kept from being destroyed: no receipt may say that it is gone before it is
        home.receipts.issue()  # what a crash kept from being signed


def load_ledger(home: "Home") -> None:
    """What is retained, and whose it is."""
    database = home.database
    blocks: dict[int, list[bytes]] = {}
    for upload, name in database.rows("SELECT upload, key FROM blocks ORDER BY upload, part"):
        blocks.setdefault(upload, []).append(bytes(name))
    uploads: dict[int, tuple[str, int, Blocks, bytes]] = {}
    home.blocks, home.pseudonyms = {}, {}
    for upload, round_, pseudonym, sealed in database.rows("SELECT id, round, pseudonym, sealed_user FROM uploads"):
        names = blocks.get(upload, [])
        if not names or any(name not in home.vault for name in names):
            raise HomeError(DAMAGED.format(str(home.layout.folder), f"upload {upload} has lost a key"))
        user = open_sealed(home.vault.key(names[0]), bytes(sealed), b"user" + names[0]).decode()
        own = home.blocks[user, round_] = Blocks(upload, home.store_, names)
        home.pseudonyms[user] = pseudonym
        uploads[upload] = user, round_, own, upload_key(home.vault, names)
    rounds: dict[int, dict[SegmentKey, list[Piece]]] = {}
    digests: dict[SegmentKey, dict[str, bytes]] = {}
    for upload, shard, slice_, held, sealed in database.rows(
        "SELECT upload, shard, slice, positions, sealed_digest FROM pieces"
    ):
        user, round_, own, sealing = uploads[upload]
        key, positions = SegmentKey(shard, round_, slice_), pos.from_runs(bytes(held))
        piece = Piece(StoredUpload(user, round_, positions, own), positions)
        rounds.setdefault(round_, {}).setdefault(key, []).append(piece)
        with suppress(VaultError):  # a damaged one is computed anew, from the samples
            digests.setdefault(key, {})[user] = open_digest(sealing, key, bytes(sealed))
    trained = {SegmentKey(*key) for key in database.rows("SELECT shard, round, slice FROM segments WHERE trained")}
    home.ledger.load(database.get("round", 0), rounds, trained, digests)
    home.inbox.load()


def _identity(home: "Home", name: bytes, sealed: bytes) -> bytes | None:
    """A sub-model's; none if it is damaged, and then the sub-model is as good as damaged itself."""
    if name not in home.vault:
        return b""  # whoever wants the sub-model will find it lost, before anything is made of this
    try:
        return open_identity(home.vault, name, sealed)
    except VaultError:
        return None
