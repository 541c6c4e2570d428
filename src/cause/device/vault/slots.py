"""A small secret in a file that is replaced in place, so that the old one is overwritten and not only unlinked.

There are two slots, each a page of its own, and each slot has a second copy elsewhere. A new secret goes into the slot
that is empty, in both copies, and is synced; then the other slot is overwritten with zeros, in both copies. A torn
write is seen by its checksum, and hits one slot only; what one copy has lost is taken from the other.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cause.device.vault.secrets_in_memory import Buffer, wiping
from cause.errors import VaultError

SLOT_BYTES = 4096
FILE_BYTES = 2 * SLOT_BYTES  # of one copy
VERSION = 1
_HEAD = struct.Struct(">8sHHQ")  # magic, version, length of the payload, sequence
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Slot:
    """A secret and its place in the order of secrets. It is stored in slot `sequence % 2`."""

    sequence: int
    payload: bytes

    @property
    def offset(self) -> int:
        """Where its page starts in a copy."""
        return self.sequence % 2 * SLOT_BYTES

    @property
    def other_offset(self) -> int:
        """Where the page of the other slot starts in a copy."""
        return (self.sequence + 1) % 2 * SLOT_BYTES

    def encode(self, magic: bytes) -> bytearray:
        """Return the slot's page. It holds the secret: overwrite it after use if the secret is not sealed."""
        page = bytearray(SLOT_BYTES)
        _HEAD.pack_into(page, _DIGEST_BYTES, magic, VERSION, len(self.payload), self.sequence)
        start, end = _DIGEST_BYTES + _HEAD.size, _DIGEST_BYTES + _HEAD.size + len(self.payload)
        page[start:end] = self.payload
        page[:_DIGEST_BYTES] = hashlib.sha256(memoryview(page)[_DIGEST_BYTES:end]).digest()
        return page


def slot_file(magic: bytes, slot: Slot) -> bytes:
    """Return the bytes of a new copy with one secret in it."""
    data = bytearray(FILE_BYTES)
    with wiping(slot.encode(magic)) as page:
        data[slot.offset : slot.offset + SLOT_BYTES] = page
    with wiping(data):
        return bytes(data)


def read_slots(path: Path, magic: bytes, copies: Sequence[Buffer]) -> list[Slot]:
    """Return the secrets in the copies of a file, the newest first; torn and empty slots have none.

    Raises
    ------
    VaultError
        No copy holds a secret.
    """
    slots: dict[int, Slot] = {}
    newer = 0
    for data in copies:
        for position in (0, 1):
            page = memoryview(data)[position * SLOT_BYTES :][:SLOT_BYTES]
            if len(page) < _DIGEST_BYTES + _HEAD.size:
                continue
            seen, version, length, sequence = _HEAD.unpack_from(page, _DIGEST_BYTES)
            body = page[_DIGEST_BYTES:][: _HEAD.size + length]
            if seen == magic and version > VERSION:
                newer = version
            elif sequence in slots:  # the other copy has it
                continue
            elif seen == magic and sequence % 2 == position and hashlib.sha256(body).digest() == page[:_DIGEST_BYTES]:
                slots[sequence] = Slot(sequence, bytes(body[_HEAD.size :]))
    if newer and not slots:
        raise VaultError(f"{str(path)!r} has format {newer}, this version reads up to {VERSION}: update cause")
    if not slots:
        raise VaultError(f"{str(path)!r} holds no key: it is damaged or foreign")
    return sorted(slots.values(), key=lambda slot: -slot.sequence)


def slot_page(data: bytes, offset: int) -> bytes:
    """Return the page of one copy that starts there; zeros where the copy is too short."""
    return data[offset : offset + SLOT_BYTES].ljust(SLOT_BYTES, b"\0")
