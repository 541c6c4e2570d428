"""A generation: the state of the vault after an erasure. Its root key opens the table with the keys of the pages."""

import os
import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cause.device.vault import keyfile
from cause.device.vault.sealing import KEY_BYTES, derive
from cause.device.vault.secrets_in_memory import Buffer, wipe, wiping
from cause.device.vault.slots import Slot

MAGIC = b"CAUSROOT"
_NONCE_BYTES = 12
_SIZE_BYTES = 4  # of the size of a page


@dataclass(frozen=True)
class Generation:
    """Its number, its root key, the vault's id and size of pages, and the slot that holds it."""

    number: int
    root: bytearray
    vault_id: bytes
    page_bytes: int
    slot: Slot

    @property
    def head(self) -> bytes:
        """The header of its table, and of pages that are written in it."""
        return keyfile.head(self.number, self.vault_id)


def new_generation(number: int, vault_id: bytes, page_bytes: int, master: Buffer) -> Generation:
    """Return a generation with a fresh root key, sealed under the master key.

    Parameters
    ----------
    number
        The number of the generation.
    vault_id, page_bytes
        The vault's id and size of pages.
    master
        The master key.
    """
    root, nonce, size = os.urandom(KEY_BYTES), os.urandom(_NONCE_BYTES), page_bytes.to_bytes(_SIZE_BYTES, "big")
    with wiping(derive(master, "root")) as derived:
        sealed = AESGCM(derived).encrypt(nonce, root, keyfile.head(number, vault_id) + size)
    generation = Generation(
        number, bytearray(root), vault_id, page_bytes, Slot(number, vault_id + size + nonce + sealed)
    )
    wipe(root)
    return generation


def open_generation(slot: Slot, master: Buffer) -> Generation | None:
    """Open the generation in a slot; None if the master key is another one. The slot's checksum has excluded damage."""
    vault_id, rest = slot.payload[: keyfile.ID_BYTES], slot.payload[keyfile.ID_BYTES :]
    size, rest = rest[:_SIZE_BYTES], rest[_SIZE_BYTES:]
    try:
        with wiping(derive(master, "root")) as derived:
            root = AESGCM(derived).decrypt(
                rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], keyfile.head(slot.sequence, vault_id) + size
            )
    except (InvalidTag, ValueError):
        return None
    generation = Generation(slot.sequence, bytearray(root), vault_id, int.from_bytes(size, "big"), slot)
    wipe(root)
    return generation


def put_row(table: bytearray, at: int, page: int, generation: int, key: bytearray) -> None:
    """Write row `at` of the table of pages.

    Parameters
    ----------
    table
        The rows of the table.
    at
        The number of the row.
    page, generation, key
        The page, the generation in which it was written, and its key.
    """
    start = at * keyfile.ROW_BYTES
    struct.pack_into(">QQ", table, start, page, generation)
    table[start + keyfile.NAME_BYTES : start + keyfile.ROW_BYTES] = key


def table_rows(table: bytearray) -> list[tuple[int, int, bytearray]]:
    """Return page, generation and key of each row of the table of pages."""
    rows = []
    for start in range(0, len(table), keyfile.ROW_BYTES):
        page, generation = struct.unpack_from(">QQ", table, start)
        rows.append((page, generation, table[start + keyfile.NAME_BYTES : start + keyfile.ROW_BYTES]))
    return rows
