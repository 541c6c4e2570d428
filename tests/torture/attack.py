"""An attacker who has the master key and every byte of a home: what can be read?"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from cause.device.store.layout import BLOCKS, DEVICE_KEY, LEDGER, SUB_MODELS, VAULT
from cause.device.vault import Vault, open_sealed
from cause.device.vault.sealing import derive
from cause.device.vault.sources import EnvKeySource
from cause.errors import VaultError
from tests.device.homes import MASTER
from tests.device.old_ledger import readable_values
from tests.device.vault.attacker import places, recoverable

SEALED = (BLOCKS, SUB_MODELS)
_HEAD = struct.Struct(">4sQ")


@dataclass(frozen=True)
class Opened:
    """Something that opened."""

    path: str
    kind: str  # "samples" or "sub-model" or "text" or "ledger"
    plain: bytes


@dataclass(frozen=True)
class Loot:
    """Everything that an attacker can read."""

    files: Mapping[str, bytes]
    """Of the home, and older copies of its ledger."""
    keys: Mapping[bytes, bytes]
    found: tuple[Opened, ...]
    """Every sealed value that one of the keys opened."""

    def contains(self, needle: bytes) -> bool:
        return any(needle in data for data in self.files.values()) or any(needle in each.plain for each in self.found)


def attack(
    folder: Path, names: Iterable[str] = (), *, backups: Iterable[Path] = (), thorough: bool = False
) -> Loot:  # fmt: skip
    """Recover every key, and try every key on every file, also on older copies of files in backups, which hold no keys.

    If thorough, on every byte of the ledger's files too, looking for texts that start as a request does or with one of
    these users' names, and on every value in older copies of the ledger.
    """
    backups = list(backups)
    files = _files(folder)
    keys = recoverable([bytes.fromhex(MASTER)], files.values()) | keys_of(folder)
    keys.pop(DEVICE_KEY, None)
    opened: list[Opened] = []
    copies = {path: data for backup in backups for path, data in _files(backup).items() if path.startswith(SEALED)}
    for path, data in (copies | files).items():
        if path.startswith(("ledger.db", "vault")):
            continue
        for name, key in keys.items():
            opened += _opened(path, data, name, key)
    if thorough:
        for path, data in files.items():
            if path.startswith("ledger.db"):
                opened += _texts(path, data, keys, [b'{"user"', *(name.encode() for name in names)])
        for backup in backups:
            opened += [
                Opened(f"{backup.name}/{LEDGER}", "ledger", each) for each in readable_values(backup / LEDGER, keys)
            ]
    old = {str(path): path.read_bytes() for backup in backups for path in backup.glob(LEDGER + "*")}
    return Loot(files | old, keys, tuple(opened))


def keys_of(folder: Path) -> dict[bytes, bytes]:
    """All keys of a home, as its own vault reads them; none where there is no vault that opens."""
    try:
        with Vault.open(folder / VAULT, EnvKeySource("KEY", {"KEY": MASTER}), read_only=True) as vault:
            return {name: vault.key(name) for name in vault.names()}
    except VaultError:
        return {}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _opened(path: str, data: bytes, name: bytes, key: bytes) -> list[Opened]:
    opened = []
    for start in places(data, b"CBK"):  # wherever it starts, whole or torn
        if start + _HEAD.size <= len(data):
            _, length = _HEAD.unpack_from(data, start)
            first = data[start + _HEAD.size : start + _HEAD.size + length]
            for part, aad in ((first, b"meta"), (data[start + _HEAD.size + length :], b"x")):
                opened += [Opened(path, "samples", plain) for plain in _plain(key, part, name + aad)]
            if not opened and path.endswith(name.hex()):  # cut another way: without tags and lengths
                opened += [Opened(path, "samples", plain) for plain in _streams(key, data[start:])]
    return opened + [Opened(path, "sub-model", plain) for plain in _plain(key, data, b"sub-model")]


def _plain(key: bytes, blob: bytes, aad: bytes) -> list[bytes]:
    try:
        return [open_sealed(key, blob, aad)]
    except VaultError:
        return []


def _streams(key: bytes, data: bytes) -> list[bytes]:
    """Decrypt from every offset at which a sealed value may begin; counter mode does not need to know its end."""
    cipher, decrypted = derive(key, "seal"), []
    for start in places(data, b"\x01"):
        counter = data[start + 1 : start + 13] + (2).to_bytes(4, "big")
        if len(counter) == 16:
            decrypted.append(Cipher(algorithms.AES(cipher), modes.CTR(counter)).decryptor().update(data[start + 13 :]))
    return decrypted


def _texts(path: str, data: bytes, keys: Mapping[bytes, bytes], starts: list[bytes]) -> list[Opened]:
    """Sealed texts anywhere in some bytes, by their beginnings: in counter mode no tag is needed to look."""
    texts: list[Opened] = []
    raw = np.frombuffer(data, dtype=np.uint8)
    offsets = np.flatnonzero(raw[: max(0, len(raw) - 36)] == 1)  # the first byte of what is sealed
    if not len(offsets):
        return texts
    nonces = raw[offsets[:, None] + np.arange(1, 13)]
    counters = np.tile(np.array([0, 0, 0, 2], dtype=np.uint8), (len(offsets), 1))  # of the first block
    blocks = np.concatenate([nonces, counters], axis=1).tobytes()
    sealed = raw[offsets[:, None] + np.arange(13, 29)]
    for key in keys.values():
        stream = Cipher(algorithms.AES(derive(key, "seal")), modes.ECB()).encryptor().update(blocks)
        plain = sealed ^ np.frombuffer(stream, dtype=np.uint8).reshape(-1, 16)
        for start in starts:
            hits = (plain[:, : len(start[:8])] == np.frombuffer(start[:8], dtype=np.uint8)).all(axis=1)
            texts += [Opened(path, "text", row.tobytes()) for row in plain[hits]]
    return texts
