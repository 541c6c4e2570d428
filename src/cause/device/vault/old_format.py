"""Vaults of version 0.1: all keys in one file that each erasure rewrote. They are read, and converted at opening.

Their files were `wrap` (the wrapping key of the current generation, two slots) and `keys.0` and `keys.1`, of which one
held all data keys, sealed under the wrapping key.
"""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cause.device.disk import Disk
from cause.device.vault import keyfile
from cause.device.vault.loading import FILES, ROOT
from cause.device.vault.mirrored_file import COPY
from cause.device.vault.partitions import Partition, Partitions, Rows
from cause.device.vault.sealing import derive
from cause.device.vault.secrets_in_memory import Buffer, wipe, wiping
from cause.device.vault.slots import Slot, read_slots
from cause.errors import VaultError

WRAP = "wrap"
KEYS = ("keys.0", "keys.1")
_MAGIC = b"CAUSEWRP"
_NONCE_BYTES = 12


@dataclass
class OldVault:
    """The contents of a vault of the old format."""

    number: int
    rows: bytearray
    damage: list[str] = field(default_factory=list)

    def partitions(self) -> Partitions:
        """Return its keys, as one page."""
        return Partitions({0: Partition(0, self.number, bytearray(), Rows(self.rows), 1, 0, 0)})

    def wipe(self) -> None:
        """Overwrite its keys in memory."""
        wipe(self.rows)


def read(disk: Disk, folder: Path, wrap: bytes, master: Buffer) -> OldVault:
    """Read the newest generation that is whole.

    Raises
    ------
    VaultError
        If the master key is another one, or all generations are damaged.
    """
    slots = read_slots(folder / WRAP, _MAGIC, [wrap])
    opened = [(slot, key) for slot in slots if (key := _wrapping_key(slot, master)) is not None]
    if not opened:
        raise VaultError(f"the master key does not open {str(folder / WRAP)!r}: it is another vault's")
    for slot, key in opened:
        path = folder / KEYS[slot.sequence % 2]
        with wiping(key):
            try:
                data = disk.read(path)
                contents = keyfile.read(repr(str(path)), [data], key, slot.sequence, slot.payload[: keyfile.ID_BYTES])
            except FileNotFoundError:
                raise VaultError(f"no vault in {str(folder)!r}: {path.name!r} is missing") from None
            except VaultError:
                if slot is opened[-1][0]:
                    raise
                continue  # a power loss came before this generation was whole; the one before still is
            return OldVault(slot.sequence, contents.rows)
    raise AssertionError("unreachable")


def remove_new(disk: Disk, folder: Path) -> None:
    """Overwrite and remove the files of an interrupted conversion: they hold the same keys."""
    _remove(disk, folder, [*FILES, ROOT + ".part", ROOT + COPY + ".part"])


def remove_old(disk: Disk, folder: Path) -> None:
    """Overwrite and remove the files of the old format, the wrapping key first."""
    _remove(disk, folder, [WRAP])
    _remove(disk, folder, [*KEYS, WRAP + ".part", ROOT + ".part", ROOT + COPY + ".part"])


def _remove(disk: Disk, folder: Path, names: list[str]) -> None:
    present = [folder / name for name in names if disk.exists(folder / name)]
    if not present:
        return
    files = []
    try:
        for path in present:
            files.append(disk.open(path))
            files[-1].write_at(0, bytes(files[-1].size()))
        disk.sync(*files)
    finally:
        for file in files:
            file.close()
    for path in present:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(path)
    disk.sync_folder(folder)


def _wrapping_key(slot: Slot, master: Buffer) -> bytes | None:
    vault_id, rest = slot.payload[: keyfile.ID_BYTES], slot.payload[keyfile.ID_BYTES :]
    try:
        with wiping(derive(master, "wrap")) as derived:
            return AESGCM(derived).decrypt(
                rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], keyfile.head(slot.sequence, vault_id)
            )
    except (InvalidTag, ValueError):
        return None
