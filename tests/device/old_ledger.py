"""Reads all values of a copied ledger, as an attacker could who has some of the keys."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from cause.device.vault import joint_key
from cause.device.vault.sealing import derive

_SEALED_BYTES = 1 + 12 + 16  # of what is sealed, beside what it holds


def readable_values(ledger: Path, keys: Mapping[bytes, bytes]) -> list[bytes]:
    """Return every value of the tables, raw and decrypted with each key and each joint key of an upload.

    Tags and places are ignored, and an upload's joint key is also made of those of its keys that are left.
    """
    with _opened(ledger) as database:
        values = [value for row in _rows(database) for value in row if isinstance(value, str | bytes)]
        blocks: dict[int, list[bytes]] = {}
        for upload, name in database.execute("SELECT upload, key FROM blocks ORDER BY upload, part"):
            blocks.setdefault(upload, []).append(name)
    own = ([keys[name] for name in names if name in keys] for names in blocks.values())
    tried = {*keys.values(), *(joint_key(left) for left in own if left)}
    plain = [value.encode() if isinstance(value, str) else value for value in values]
    sealed = [value for value in plain if value[:1] == b"\x01" and len(value) > _SEALED_BYTES]
    return plain + [_decrypted(key, value) for key in tried for value in sealed]


def _opened(ledger: Path) -> "closing[sqlite3.Connection]":
    """Open a copy of a ledger in memory."""
    with tempfile.TemporaryDirectory() as folder:
        for path in ledger.parent.glob(ledger.name + "*"):
            shutil.copy(path, folder)
        opened = sqlite3.connect(":memory:")
        with closing(sqlite3.connect(Path(folder) / ledger.name)) as copy:
            copy.backup(opened)
    return closing(opened)


def _rows(database: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
    for (table,) in list(database.execute("SELECT name FROM sqlite_schema WHERE type='table'")):
        yield from database.execute(f"SELECT * FROM {table}")


def _decrypted(key: bytes, sealed: bytes) -> bytes:
    """As GCM does it: the counter of the first block is 2."""
    counter = sealed[1:13] + (2).to_bytes(4, "big")
    return Cipher(algorithms.AES(derive(key, "seal")), modes.CTR(counter)).decryptor().update(sealed[13:-16])
